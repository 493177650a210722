library(testthat)
library(bartserve)

test_check("bartserve")
