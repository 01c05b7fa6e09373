"""`tandem report`: Markdown and plots of what `tandem bench` measured."""
