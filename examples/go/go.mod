module run_model

go 1.19
