module github.com/weir-project/weir/bench

go 1.26.0

require (
	github.com/stretchr/testify v1.12.1
	github.com/weir-project/weir v0.0.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/weir-project/weir => ../
