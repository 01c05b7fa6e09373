"""`tandem park` and `tandem wake`: GPU nodes now, instead of at the times of the section `park`."""
