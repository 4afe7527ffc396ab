package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/netio"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the Go release and the network engines in this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			about := struct {
				Version string   `json:"version"`
				Go      string   `json:"go"`
				Engines []string `json:"engines"`
			}{broker.Version, runtime.Version(), netio.Engines()}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(about)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "posthouse %s (%s, engines: %v)\n", about.Version, about.Go, about.Engines)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
