// Command {{slug}} greets people.
package main

import (
	"os"

	"example.com/{{slug}}/internal/cli"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		os.Exit(1)
	}
}
