need_service()
need_time()

n <- 60
trial <- data.frame(age = 20 + (7 * seq_len(n)) %% 50, dose = rep(c(TRUE, FALSE), n / 2),
                    sex = factor(rep(c("f", "m"), each = n / 2)))
trial$pain <- 10 - 2 * trial$dose + trial$age / 20 + sin(seq_len(n))

test_that("a summary says how far a model may be trusted, and what matters", {
  model <- quick_fit(pain ~ ., trial, holdout = 0.2)
  expect_output(print(summary(model)), "verdict: .*held out 12 rows: RMSE.*when a feature is shuffled")
  expect_setequal(bart_importance(model)$name, c("age", "dose", "sex"))
  expect_equal(sum(bart_inclusion(model)$mean), 1)
  curve <- bart_partial_dependence(model, c("sex", "age"), grid = list(age = c(30, 40)), level = c(0.5, 0.9))
  expect_named(curve, c("sex", "age", "mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90"))
  expect_identical(curve[c("sex", "age")], data.frame(sex = c("f", "f", "m", "m"), age = c(30L, 40L, 30L, 40L)))
  one <- bart_partial_dependence(model, "age", trial[1:9, ], grid = list(age = 40))
  expect_equal(one$mean, mean(predict(model, transform(trial[1:9, ], age = 40))$mean))
  reasons <- bart_shap(model, trial[3:4, ])
  expect_equal(attr(reasons, "base") + rowSums(reasons), c(`3` = 1, `4` = 1) * attr(reasons, "f"))
  grDevices::pdf(NULL)
  expect_identical(dim(plot(model)), c(20L, 2L))
  expect_named(plot(model, "sex")[1:2], c("sex", "mean"))
  expect_named(plot(model, "age")[1:2], c("age", "mean"))
  grDevices::dev.off()
})

test_that("a model without held-out rows has no importance, and says so", {
  model <- quick_fit(pain ~ age, trial)
  expect_error(bart_importance(model), "holdout = 0.2", class = "bartserve_no_holdout")
  expect_output(print(summary(model)), "10 trees")
})

test_that("probabilities of several classes have a column each", {
  trial$class <- c("a.1", "b", "c")[seq_len(n) %% 3 + 1]
  model <- quick_fit(class ~ age + dose, trial)
  answer <- predict(model, trial[1:2, ])
  expect_equal(unname(rowSums(answer[1:3])), c(1, 1))
  curve <- bart_partial_dependence(model, "dose")
  expect_named(curve[1:4], c("dose", "mean_a.1", "mean_b", "mean_c"))
  expect_equal(rowSums(curve[2:4]), c(1, 1))
})

test_that("effects of a treatment are a table, with those of each row", {
  model <- quick_fit(pain ~ ., trial, treatment = "dose", assignment = "random")
  effects <- suppressWarnings(bart_effects(model, by = "sex"))
  expect_identical(effects$table$of, c("average", "treated", "untreated", "f", "m"))
  expect_lt(effects$table$mean[1], -1)
  expect_output(print(effects), "minus pain where dose = 0")
  some <- suppressWarnings(bart_effects(model, trial[1:10, ], by = "sex"))
  expect_identical(nrow(some$each), 10L)
})

test_that("a set has a model for each group, by which rows are predicted", {
  fitted <- suppressWarnings(do.call(bart_fit_many, c(list(pain ~ . - age, trial, by = "sex"), short)))
  expect_identical(fitted$settings$features, "dose")
  expect_output(print(fitted), "pain by sex, 2 groups, 2 fitted")
  groups <- summary(bart_set(fitted$id))
  expect_identical(groups$sex, c("f", "m"))
  expect_identical(groups$rows, c(30L, 30L))
  answer <- predict(fitted, trial[c(1, n), ])
  alone <- predict(bart_model(groups$model_id[2]), trial[n, ])
  expect_identical(answer[2, ]$mean, alone$mean)
  strange <- transform(trial[1:2, ], sex = c("f", "x"))
  refused <- expect_error(predict(fitted, strange), class = "bartserve_unusable_data")
  expect_identical(refused$errors[c("column", "row")], data.frame(column = "sex", row = 2L))
  expect_warning(flagged <- predict(fitted, strange, unknown = "flag"), "no model for sex")
  expect_identical(is.na(flagged$mean), c(FALSE, TRUE))
  bart_delete(fitted)
  expect_error(bart_set(fitted$id), class = "bartserve_not_found")
})

test_that("forecasts are data frames with dates, and totals have intervals of their own", {
  k <- 1:48
  sales <- data.frame(month = rep(seq(as.Date("2019-01-01"), by = "month", length.out = 48), 2),
                      shop = rep(c("a", "b"), each = 48), promo = c(k %% 3 == 0, k %% 5 == 0))
  sales$units <- 50 + 20 * sales$promo + 8 * sin(seq_len(96) / 4) + c(k %% 7, k %% 11) / 5
  model <- suppressWarnings(bart_fit(
    units ~ ., sales, time = "month", series = "shop", horizon = 4, known = "promo", num_trees = 10, num_chains = 1,
    num_burnin = 20, num_draws = 25, seed = 1
  ))
  plan <- bart_plan_template(model)
  expect_identical(plan$month, rep(seq(as.Date("2023-01-01"), by = "month", length.out = 4), 2))
  refused <- expect_error(bart_forecast(model), class = "bartserve_problem")
  expect_identical(refused$errors$column, "known")
  plan$promo <- rep(c(TRUE, FALSE), 4)
  forecast <- bart_forecast(model, plan)
  expect_identical(forecast[c("shop", "month")], plan[c("shop", "month")])
  expect_identical(forecast$step, rep(1:4, 2))
  expect_true(all(forecast$lower < forecast$median & forecast$median < forecast$upper))
  expect_match(attr(forecast, "claim"), "rehearsals")
  total <- bart_total(model, plan, steps = c(1, 3), by = "shop")
  expect_identical(total[c("shop", "from", "to")], data.frame(shop = c("a", "b"), from = 1L, to = 3L))
  expect_true(all(total$lower < total$upper))
  expect_s3_class(bart_rehearsals(model)$origin, "Date")
  stored <- bart_upload(plan)
  expect_identical(bart_forecast(model, stored, series = "a")$median, forecast$median[1:4])
})
