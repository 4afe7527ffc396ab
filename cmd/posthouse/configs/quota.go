package configs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/posthouse/posthouse/cmd/posthouse/cli"
)

// entity is whom a quota is for: flags of each quota command.
type entity struct {
	user, clientID, ip                      string
	defaultUser, defaultClientID, defaultIP bool
}

func (e *entity) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.user, "user", "", "of this `user`")
	f.StringVar(&e.clientID, "client-id", "", "of this `client id`")
	f.StringVar(&e.ip, "ip", "", "of this `address`: connection_creation_rate alone")
	f.BoolVar(&e.defaultUser, "default-user", false, "of every user that has none of its own")
	f.BoolVar(&e.defaultClientID, "default-client-id", false, "of every client id that has none of its own")
	f.BoolVar(&e.defaultIP, "default-ip", false, "of every address that has none of its own")
}

// components are what was named, user first; a nil name is the default.
func (e *entity) components() (kadm.ClientQuotaEntity, error) {
	var out kadm.ClientQuotaEntity
	for _, c := range []struct {
		kind, name string
		byDefault  bool
	}{{"user", e.user, e.defaultUser}, {"client-id", e.clientID, e.defaultClientID}, {"ip", e.ip, e.defaultIP}} {
		if c.name != "" && c.byDefault {
			return nil, cli.Usagef("--%s or --default-%s, not both", c.kind, c.kind)
		}
		if c.byDefault {
			out = append(out, kadm.ClientQuotaEntityComponent{Type: c.kind})
		} else if c.name != "" {
			out = append(out, kadm.ClientQuotaEntityComponent{Type: c.kind, Name: &c.name})
		}
	}
	if len(out) > 1 && out[len(out)-1].Type == "ip" {
		return nil, cli.Usagef("an address has quotas of its own, not together with a user or client id")
	}
	return out, nil
}

// mustName is components of a command that changes something.
func (e *entity) mustName() (kadm.ClientQuotaEntity, error) {
	out, err := e.components()
	if err == nil && len(out) == 0 {
		return nil, cli.Usagef("whose quotas? give --user, --client-id, --ip or one of --default-…")
	}
	return out, err
}

func show(entity kadm.ClientQuotaEntity) string {
	var parts []string
	for _, c := range entity {
		name := "<default>"
		if c.Name != nil {
			name = *c.Name
		}
		parts = append(parts, c.Type+"="+name)
	}
	return strings.Join(parts, ", ")
}

// quotaKeys are Kafka's quotas; a broker may know fewer.
var quotaKeys = []string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"}

func newQuota() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "quota",
		Short: "Show and change what clients may use",
		Long: "Show and change what clients may use, by user, client id, both, or address:\n\n" +
			"  producer_byte_rate        bytes a second that may be produced\n" +
			"  consumer_byte_rate        bytes a second that may be fetched\n" +
			"  request_percentage        share of the broker's threads, 100 is one thread\n" +
			"  controller_mutation_rate  partitions a second that may be created or deleted\n" +
			"  connection_creation_rate  connections a second, of an address",
	}, newQuotaDescribe(), newQuotaSet(), newQuotaUnset())
}

type quota struct {
	Entity map[string]*string `json:"entity"`
	Values map[string]float64 `json:"quotas"`
	name   string
}

func newQuotaDescribe() *cobra.Command {
	conn, who := &cli.Conn{}, &entity{}
	cmd := &cobra.Command{
		Use: "describe", Short: "Show quotas: all, or those that name someone", Args: cobra.NoArgs,
		Example: "  posthouse config quota describe\n  posthouse config quota describe --user alice",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, _ []string) error {
			named, err := who.components()
			if err != nil {
				return err
			}
			var filter []kadm.DescribeClientQuotaComponent
			for _, c := range named {
				match := kmsg.QuotasMatchTypeExact
				if c.Name == nil {
					match = kmsg.QuotasMatchTypeDefault
				}
				filter = append(filter, kadm.DescribeClientQuotaComponent{Type: c.Type, MatchName: c.Name, MatchType: match})
			}
			found, err := s.Admin.DescribeClientQuotas(ctx, false, filter)
			if err != nil {
				return cli.Broken(err, "")
			}
			quotas := []quota{}
			for _, q := range found {
				row := quota{Entity: map[string]*string{}, Values: map[string]float64{}, name: show(q.Entity)}
				for _, c := range q.Entity {
					row.Entity[c.Type] = c.Name
				}
				for _, v := range q.Values {
					row.Values[v.Key] = v.Value
				}
				quotas = append(quotas, row)
			}
			slices.SortFunc(quotas, func(a, b quota) int { return strings.Compare(a.name, b.name) })
			return s.Print(quotas, func(w io.Writer) error { return printQuotas(w, quotas) })
		}),
	}
	conn.RegisterJSON(cmd)
	who.register(cmd)
	return cmd
}

func printQuotas(w io.Writer, quotas []quota) error {
	if len(quotas) == 0 {
		_, err := fmt.Fprintln(w, "no quotas")
		return err
	}
	table := cli.NewTable("OF", "QUOTA", ">VALUE")
	for _, q := range quotas {
		for _, key := range slices.Sorted(maps.Keys(q.Values)) {
			table.Row(q.name, key, strconv.FormatFloat(q.Values[key], 'f', -1, 64))
		}
	}
	return table.Write(w)
}

func newQuotaSet() *cobra.Command {
	conn, who := &cli.Conn{}, &entity{}
	cmd := &cobra.Command{
		Use: "set KEY=NUMBER...", Short: "Set quotas", Args: cli.Names("quota"),
		Example: "  posthouse config quota set --user alice producer_byte_rate=10485760\n" +
			"  posthouse config quota set --default-client-id consumer_byte_rate=1048576",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
			values, err := cli.Assignments(args)
			if err != nil {
				return err
			}
			var ops []kadm.AlterClientQuotaOp
			for _, key := range slices.Sorted(maps.Keys(values)) {
				n, err := strconv.ParseFloat(values[key], 64)
				if err != nil || n <= 0 {
					return cli.Usagef("%s=%s: want a number above 0", key, values[key])
				}
				ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Value: n})
			}
			return alterQuotas(ctx, s, who, ops)
		}),
	}
	return quotaCommand(cmd, conn, who)
}

func newQuotaUnset() *cobra.Command {
	conn, who := &cli.Conn{}, &entity{}
	cmd := &cobra.Command{
		Use: "unset KEY...", Short: "Remove quotas", Args: cli.Names("quota"),
		Example: "  posthouse config quota unset --user alice producer_byte_rate",
		RunE: conn.Run(func(ctx context.Context, s *cli.Session, args []string) error {
			var ops []kadm.AlterClientQuotaOp
			for _, key := range args {
				ops = append(ops, kadm.AlterClientQuotaOp{Key: key, Remove: true})
			}
			return alterQuotas(ctx, s, who, ops)
		}),
	}
	return quotaCommand(cmd, conn, who)
}

func quotaCommand(cmd *cobra.Command, conn *cli.Conn, who *entity) *cobra.Command {
	conn.Register(cmd)
	who.register(cmd)
	cmd.ValidArgsFunction = cobra.FixedCompletions(quotaKeys, cobra.ShellCompDirectiveNoFileComp)
	return cmd
}

func alterQuotas(ctx context.Context, s *cli.Session, who *entity, ops []kadm.AlterClientQuotaOp) error {
	named, err := who.mustName()
	if err != nil {
		return err
	}
	answers, err := s.Admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: named, Ops: ops}})
	if err != nil {
		return cli.Broken(err, "")
	}
	var errs []error
	for _, a := range answers {
		if a.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", show(a.Entity), cli.Broken(a.Err, a.ErrMessage)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "changed %s of %s\n", cli.Count(len(ops), "quota"), show(named))
	return err
}
