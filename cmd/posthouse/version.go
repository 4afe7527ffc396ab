package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/broker"
	"github.com/posthouse/posthouse/netio"
)

// about is what this binary is.
type about struct {
	Version string   `json:"version"`
	Go      string   `json:"go"`
	Engines []string `json:"engines"`
}

func aboutThis() about { return about{broker.Version, runtime.Version(), netio.Engines()} }

func (a about) String() string {
	return fmt.Sprintf("posthouse %s (%s, engines: %s)", a.Version, a.Go, strings.Join(a.Engines, ", "))
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the Go release and the network engines in this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(aboutThis())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), aboutThis())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
