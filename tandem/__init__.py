"""The command: `tandem plan`. Thin: it asks sharing/ and sandbox/, and shows what they say."""
