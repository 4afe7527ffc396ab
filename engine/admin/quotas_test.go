package admin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quotaEntry makes an entry of "user=a client-id=* key=1 other!": "*" is the
// default, "!" removes.
func quotaEntry(text string) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for word := range strings.FieldsSeq(text) {
		name, value, set := strings.Cut(word, "=")
		switch name {
		case meta.QuotaUser, meta.QuotaClientID, meta.QuotaIP, "color":
			p := kmsg.NewAlterClientQuotasRequestEntryEntity()
			if p.Type = name; value != "*" {
				p.Name = ptr(value)
			}
			e.Entity = append(e.Entity, p)
			continue
		}
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Remove = strings.TrimSuffix(name, "!"), !set
		_, _ = fmt.Sscan(value, &op.Value)
		e.Ops = append(e.Ops, op)
	}
	return e
}

func TestAlterClientQuotas(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct{ entries, answer, call string }{
		{"user=u producer_byte_rate=10 request_percentage=1.5", "0 <null>", "quota of user=u map[producer_byte_rate:10 request_percentage:1.5] []"},
		{"user=u producer_byte_rate!", "0 <null>", "quota of user=u map[] [producer_byte_rate]"},
		{"user=* client-id=* consumer_byte_rate=5", "0 <null>", "quota of user=<default> client-id=<default> map[consumer_byte_rate:5] []"},
		{"ip=10.0.0.1 connection_creation_rate=5", "0 <null>", "quota of ip=10.0.0.1 map[connection_creation_rate:5] []"},
		{"ip=* connection_creation_rate=5", "0 <null>", "quota of ip=<default> map[connection_creation_rate:5] []"},
		{"producer_byte_rate=1", "42 Invalid empty client quota entity", ""},
		{"user= producer_byte_rate=1", "42 Empty user not supported", ""},
		{"color=red producer_byte_rate=1", "42 Unhandled client quota entity type: color", ""},
		{"user=u ip=10.0.0.1 connection_creation_rate=1", "42 Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId", ""},
		{"ip=no..host connection_creation_rate=1", "42 no..host is not a valid IP or resolvable host.", ""},
		{"user=u connection_creation_rate=1", "42 Invalid configuration key connection_creation_rate", ""},
		{"user=u producer_byte_rate=0", "42 Quota producer_byte_rate must be greater than 0", ""},
		{"user=u producer_byte_rate=NaN", "42 Quota producer_byte_rate must be greater than 0", ""},
		{"user=u producer_byte_rate=1.5", "42 producer_byte_rate cannot be a fractional value.", ""},
		{"user=u producer_byte_rate=1e30", "42 Proposed value for producer_byte_rate is too large for a LONG.", ""},
		{"ip=10.0.0.1 connection_creation_rate=3e9", "42 Proposed value for connection_creation_rate is too large for an INT.", ""},
		{"user=u request_percentage=Inf", "42 Quota request_percentage must be a number", ""},
		{"user=u producer_byte_rate=1 producer_byte_rate=2", "42 Ignoring duplicate entity ClientQuotaEntity(entries={user=u})", ""},
		{"user=u consumer_byte_rate=1|user=u consumer_byte_rate=2", "42 Ignoring duplicate entity ClientQuotaEntity(entries={user=u})", "quota of user=u map[consumer_byte_rate:1] []"},
	} {
		for _, validateOnly := range []bool{true, false} {
			req := kmsg.NewPtrAlterClientQuotasRequest()
			req.Version, req.ValidateOnly = 1, validateOnly
			for text := range strings.SplitSeq(tt.entries, "|") {
				req.Entries = append(req.Entries, quotaEntry(text))
			}
			resp := roundTrip(t, c.AlterClientQuotas(context.Background(), req, client), kmsg.NewPtrAlterClientQuotasResponse())
			e := resp.Entries[0]
			if got := fmt.Sprintf("%d %s", e.ErrorCode, str(e.ErrorMessage)); len(resp.Entries) != 1 || got != tt.answer {
				t.Errorf("%s: got %s, want %s", tt.entries, got, tt.answer)
			}
			if validateOnly || tt.call == "" {
				c.expectCalls()
			} else {
				c.expectCalls(tt.call)
			}
		}
	}
}

func TestDescribeClientQuotas(t *testing.T) {
	c := newCluster(t)
	c.change(func(im *meta.Image) {
		one := map[string]float64{"producer_byte_rate": 1}
		im.Quotas = map[meta.QuotaEntity]map[string]float64{
			{User: meta.ExactQuota("u")}:                                 one,
			{User: meta.DefaultQuota}:                                    one,
			{User: meta.ExactQuota("u"), ClientID: meta.ExactQuota("c")}: one,
			{User: meta.ExactQuota("u"), ClientID: meta.DefaultQuota}:    one,
			{ClientID: meta.ExactQuota("c")}:                             one,
			{IP: meta.ExactQuota("10.0.0.1")}:                            {"connection_creation_rate": 3},
		}
	})
	ask := func(strict bool, components string) string {
		req := kmsg.NewPtrDescribeClientQuotasRequest()
		req.Version, req.Strict = 1, strict
		for word := range strings.FieldsSeq(components) {
			p := kmsg.NewDescribeClientQuotasRequestComponent()
			name, value, exact := strings.Cut(word, "=")
			switch {
			case exact:
				p.EntityType, p.Match = name, ptr(value)
			case strings.HasSuffix(word, "*"):
				p.EntityType, p.MatchType = strings.TrimSuffix(word, "*"), matchDefault
			default:
				p.EntityType, p.MatchType = strings.TrimSuffix(word, "?"), matchSpecified
			}
			req.Components = append(req.Components, p)
		}
		resp := roundTrip(t, c.DescribeClientQuotas(context.Background(), req, client), kmsg.NewPtrDescribeClientQuotasResponse())
		if resp.ErrorCode != 0 {
			return fmt.Sprintf("%d %s", resp.ErrorCode, str(resp.ErrorMessage))
		}
		var found []string
		for _, e := range resp.Entries {
			var parts []string
			for _, p := range e.Entity {
				parts = append(parts, p.Type+"="+str(p.Name))
			}
			found = append(found, strings.Join(parts, "+")+fmt.Sprintf(":%v", e.Values[0].Value))
		}
		return strings.Join(found, " ")
	}
	for _, tt := range []struct {
		strict           bool
		components, want string
	}{
		{true, "user=u", "user=u:1"},
		{false, "user=u", "user=u:1 user=u+client-id=<null>:1 user=u+client-id=c:1"},
		{true, "user*", "user=<null>:1"},
		{true, "user?", "user=<null>:1 user=u:1"},
		{true, "user=u client-id?", "user=u+client-id=<null>:1 user=u+client-id=c:1"},
		{false, "client-id=c", "client-id=c:1 user=u+client-id=c:1"},
		{true, "ip?", "ip=10.0.0.1:3"},
		{true, "user=nobody", ""},
		{true, "", ""},
		{true, "color=red", "35 Unsupported entity type color"},
		{true, "user=u user?", "42 Entity type user cannot appear more than once in the filter."},
		{true, "user=u ip?", "42 Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."},
	} {
		if got := ask(tt.strict, tt.components); got != tt.want {
			t.Errorf("strict %v %q: got %q, want %q", tt.strict, tt.components, got, tt.want)
		}
	}
	if got := strings.Fields(ask(false, "")); len(got) != 6 {
		t.Errorf("all: %q", got)
	}
}
