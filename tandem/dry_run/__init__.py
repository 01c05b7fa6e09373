"""The plan of a stack file, before anything is deployed: verdict, resources, time, report. No network."""
