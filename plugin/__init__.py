"""The components for every language of Pulumi: `PulumiPlugin.yaml` says how Pulumi starts this folder."""
