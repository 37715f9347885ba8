// Package cli is the command line.
package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"example.com/{{slug}}/internal/greeting"
)

// New makes the root command with all others below it.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:          "{{slug}}",
		Short:        {{description_quoted}},
		Version:      "0.1.0",
		SilenceUsage: true,
	}
	root.AddCommand(newGreet())
	return root
}

func newGreet() *cobra.Command {
	var shout bool
	command := &cobra.Command{
		Use:   "greet NAME",
		Short: "Greet somebody by name",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			message, err := greeting.Greet(args[0])
			if err != nil {
				return err
			}
			if shout {
				message = strings.ToUpper(message)
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), message)
			return err
		},
	}
	command.Flags().BoolVar(&shout, "shout", false, "in capital letters")
	return command
}
