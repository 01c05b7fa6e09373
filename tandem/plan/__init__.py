"""`tandem plan`: whether a stack works, what it creates and costs, and how it changes the deployed one."""
