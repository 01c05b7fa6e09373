"""`tandem report`: one page about what `tandem bench` measured."""
