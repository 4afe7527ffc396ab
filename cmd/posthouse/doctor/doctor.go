// Package doctor has the command posthouse doctor: it looks at the machine, the
// configuration and the advertised addresses, and says what will hurt, before
// it does.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
	"github.com/posthouse/posthouse/engine/config"
)

// Load reads a broker's configuration as serve does: an optional properties
// file, the environment, and overrides.
type Load func(files, overrides []string) (cfg *config.Broker, warnings []string, err error)

// dialTimeout bounds each look at an address.
const dialTimeout = 3 * time.Second

// New makes posthouse doctor.
func New(load Load) *cobra.Command {
	conn := &cli.Conn{}
	var overrides []string
	cmd := &cobra.Command{
		Use: "doctor [server.properties]", Short: "Check this machine, a configuration and the advertised addresses",
		Long: "Check this machine and a broker's configuration, read as serve reads it: limits, log\n" +
			"directories and their file systems, space, the network engine, the kernel's settings,\n" +
			"memory, clock, and whether advertised listeners make sense. With --bootstrap a broker\n" +
			"that runs is asked for the addresses that it tells clients, and they are tried from\n" +
			"here: run it where the clients are. Nothing is changed.\n\n" +
			"Each finding is OK, WARN (it works, but will hurt) or FAIL, with what it means and\n" +
			"what to do. The exit code is 1 if anything fails.",
		Example: "  posthouse doctor\n  posthouse doctor config/server.properties --override log.dirs=/srv/posthouse\n" +
			"  posthouse doctor --bootstrap broker.example:9092 --json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			ctx, release := cli.UntilInterrupt(cmd.Context())
			defer release()
			f := &facts{}
			f.Config, f.Warnings, f.Invalid = load(files, overrides)
			if f.Invalid != nil {
				f.Config = nil
			}
			gatherHost(f)
			if cmd.Flags().Changed("bootstrap") {
				askBroker(ctx, cmd, conn, f)
			} else if f.Config != nil {
				lookUpAdvertised(ctx, f)
			}
			return show(cmd.OutOrStdout(), judge(f), conn.JSON)
		},
	}
	conn.RegisterJSON(cmd)
	cmd.Flags().Lookup("bootstrap").Usage = "ask a broker that runs there, `host:port,…`; without it none is asked"
	cmd.Flags().Lookup("bootstrap").DefValue = "[]"
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "a `key=value` over the file, as for serve; may be repeated")
	return cmd
}

// askBroker takes the advertised addresses from a broker, and tries them.
func askBroker(ctx context.Context, cmd *cobra.Command, conn *cli.Conn, f *facts) {
	session, err := conn.Connect(ctx, cmd, cli.Anything)
	f.Asked = strings.Join(conn.Bootstrap, ",")
	if err != nil {
		f.AskErr = err
		return
	}
	defer session.Client.Close()
	bounded, cancel := context.WithTimeout(ctx, conn.Timeout)
	defer cancel()
	brokers, err := session.Admin.ListBrokers(bounded)
	if err != nil {
		f.AskErr = conn.Explain(bounded, err)
		return
	}
	f.Asked = conn.Bootstrap[0]
	for _, b := range brokers {
		f.Reached = append(f.Reached, reach(ctx, fmt.Sprintf("by broker %d", b.NodeID), b.Host, b.Port, true, dialTimeout))
	}
}

// lookUpAdvertised looks the configured names up; whether anybody listens there
// only a broker that runs can show.
func lookUpAdvertised(ctx context.Context, f *facts) {
	for _, l := range f.Config.AdvertisedListeners {
		f.Reached = append(f.Reached, reach(ctx, "as "+l.Name, l.Host, l.Port, false, dialTimeout))
	}
}

// show prints the findings; an error says how many failed.
func show(w io.Writer, found []Finding, asJSON bool) error {
	counts := map[Status]int{}
	for _, f := range found {
		counts[f.Status]++
	}
	var err error
	if asJSON {
		err = cli.WriteJSON(w, found)
	} else {
		err = showLines(w, found, counts)
	}
	if counts[Fail] > 0 {
		err = errors.Join(err, fmt.Errorf("%s failed", cli.Count(counts[Fail], "check")))
	}
	return err
}

func showLines(w io.Writer, found []Finding, counts map[Status]int) error {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%-4s  %s: %s\n", f.Status, cli.Printable(f.Check), cli.Printable(f.Found))
		if f.Means != "" {
			fmt.Fprintf(&b, "      what it means: %s\n      what to do: %s\n", f.Means, f.Do)
		}
	}
	fmt.Fprintf(&b, "%d OK, %d WARN, %d FAIL\n", counts[OK], counts[Warn], counts[Fail])
	_, err := io.WriteString(w, b.String())
	return err
}
