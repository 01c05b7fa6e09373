"""The command `tandem`. Thin: it asks sharing/, sandbox/ and the AWS account, and shows what they say."""
