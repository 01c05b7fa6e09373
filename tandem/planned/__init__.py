"""What a stack file means before anything is deployed: verdict, resources, time, report. No network."""
