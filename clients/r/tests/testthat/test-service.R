need_service()

cars <- data.frame(weight = c(1650:1720), year = rep(70:82, length.out = 71))
cars$mpg <- 40 - cars$weight / 100 + sin(cars$year)
model <- quick_fit(mpg ~ ., cars, name = "r-cars", holdout = 0.2)

test_that("columns of every kind arrive as what they are", {
  frame <- every_kind()
  dataset <- suppressWarnings(bart_upload(frame))
  columns <- bartserve:::columns_of(dataset)
  kinds <- c("number", "number", "number", "boolean", rep("category", 3), rep("date", 3), "number", "number")
  expect_identical(columns$kind, kinds)
  expect_identical(columns$missing, unname(vapply(frame, function(column) sum(is.na(column)), 0L)))
  expect_setequal(dataset$columns[[5]]$levels, na.omit(unique(frame$text)))
  expect_setequal(dataset$columns[[6]]$levels, levels(frame$factor))
  expect_identical(dataset$columns[[10]]$max, "2024-04-01T15:30:00.250000")
  expect_identical(dataset$columns[[2]]$min, 1 / 40)
  expect_true(dataset$id %in% bart_datasets()$id)
  expect_output(print(bart_dataset(dataset$id)), "berlin +date")
  bart_delete(dataset)
  expect_error(bart_dataset(dataset$id), class = "bartserve_not_found")
})

test_that("a fit to every kind of column predicts its own rows without unusual cells", {
  frame <- every_kind()
  fitted <- quick_fit(y ~ ., frame)
  told <- expect_warning(seen <- predict(fitted, frame), "missing in 1 row", class = "bartserve_warning")
  expect_match(told$sentences, "missing in 1 row$")
  expect_identical(nrow(seen), 40L)
  expect_identical(nrow(attr(seen, "flags")), 0L)
})

test_that("an ordered factor is fitted as ordered classes, in its order", {
  frame <- every_kind()
  frame$ordered <- frame$ordered[ifelse(is.na(frame$ordered), 1, seq_along(frame$ordered))]
  fitted <- quick_fit(ordered ~ double + integer, frame)
  expect_identical(fitted$settings$family, "ordinal")
  expect_named(predict(fitted, frame[1:2, ])[1:3], paste0("mean_", c("low", "middle", "high")))
})

test_that("predictions are data frames with the rows' names and the levels asked for", {
  new <- cars[c(3, 7), ]
  new$unknown <- "x"
  answer <- predict(model, new, level = c(0.5, 0.9), interval = "predictive", quantiles = 0.1)
  expect_named(answer, c("mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90", "quantile_10"))
  expect_identical(row.names(answer), c("3", "7"))
  expect_true(all(answer$lower_90 < answer$lower_50 & answer$upper_50 < answer$upper_90))
  expect_identical(predict(bart_model("r-cars"), new, interval = "predictive")$mean, answer$mean)
})

test_that("a row unlike the data warns and is flagged", {
  new <- transform(cars[1:2, ], weight = c(9000, 1700))
  expect_warning(far <- predict(model, new), class = "bartserve_warning")
  expect_identical(attr(far, "flags"), data.frame(row = 1L, column = "weight", flag = "outside_range"))
})

test_that("refusals are conditions with class, column and row", {
  refused <- expect_error(predict(model, transform(cars[1:3, ], weight = c(1, 2, Inf))), class = "bartserve_problem")
  expect_identical(refused$errors[c("column", "row")], data.frame(column = "weight", row = 3L))
  refused <- expect_error(bart_fit(mpgs ~ ., cars, num_trees = 2), "did you mean mpg", class = "bartserve_unusable_data")
  expect_identical(refused$status, 422L)
  refused <- expect_error(predict(model, cars["year"]), class = "bartserve_unusable_data")
  expect_identical(refused$errors$column, "weight")
  expect_error(bart_upload(data.frame(x = c(1, Inf, 3), y = 1:3)), class = "bartserve_unusable_data")
})

test_that("a fit is followed, found by its name, continued and deleted", {
  looks <- list()
  started <- bart_fit(mpg ~ weight, cars, wait = FALSE, num_trees = 5, num_chains = 2, num_burnin = 10, num_draws = 10)
  ended <- suppressWarnings(bart_wait(started, progress = function(now) looks[[length(looks) + 1]] <<- now$state))
  expect_identical(tail(looks, 1), list("succeeded"))
  expect_identical(ended$settings$features, "weight")
  expect_output(print(ended), "succeeded")
  longer <- suppressWarnings(bart_extend(ended, 5))
  expect_identical(longer$draws, 15L)
  expect_true(ended$id %in% bart_models()$id)
  file <- bart_download(ended, tempfile())
  expect_gt(file.size(file), 1000)
  bart_delete(ended)
  expect_error(bart_model(ended$id), class = "bartserve_not_found")
})
