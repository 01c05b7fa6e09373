"""`tandem bench` measures models alone and together; `tandem report` tells what came out."""
