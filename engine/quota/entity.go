package quota

import "github.com/posthouse/posthouse/replication/meta"

// tags say which clients share one measurement: those of a user with a client
// id, all of a user, or all with a client id. A part that is empty is any.
type tags struct{ user, clientID string }

// limits are the limits of each entity, by kind; zero is none.
type limits map[meta.QuotaEntity][kinds]float64

// resolve finds the most specific quota of a client and whom it shares it with
// (ClientQuotaManager.DefaultQuotaCallback). False if no quota holds it.
func (l limits) resolve(kind Kind, user, clientID string) (limit float64, shared tags, ok bool) {
	exactUser, exactClient := meta.ExactQuota(user), meta.ExactQuota(clientID)
	for _, level := range [...]struct {
		entity meta.QuotaEntity
		shared tags
	}{
		{meta.QuotaEntity{User: exactUser, ClientID: exactClient}, tags{user, clientID}},
		{meta.QuotaEntity{User: exactUser, ClientID: meta.DefaultQuota}, tags{user, clientID}},
		{meta.QuotaEntity{User: exactUser}, tags{user, ""}},
		{meta.QuotaEntity{User: meta.DefaultQuota, ClientID: exactClient}, tags{user, clientID}},
		{meta.QuotaEntity{User: meta.DefaultQuota, ClientID: meta.DefaultQuota}, tags{user, clientID}},
		{meta.QuotaEntity{User: meta.DefaultQuota}, tags{user, ""}},
		{meta.QuotaEntity{ClientID: exactClient}, tags{"", clientID}},
		{meta.QuotaEntity{ClientID: meta.DefaultQuota}, tags{"", clientID}},
	} {
		if limit := l[level.entity][kind]; limit > 0 {
			return limit, level.shared, true
		}
	}
	return 0, tags{}, false
}

// ofTags is the limit that a measurement has under these limits; false if no
// quota is measured by these tags any more.
func (l limits) ofTags(kind Kind, t tags) (limit float64, ok bool) {
	var levels [4]meta.QuotaEntity
	n := 0
	add := func(user, clientID meta.QuotaName) {
		levels[n] = meta.QuotaEntity{User: user, ClientID: clientID}
		n++
	}
	user, clientID := meta.ExactQuota(t.user), meta.ExactQuota(t.clientID)
	switch {
	case t.user != "" && t.clientID != "":
		add(user, clientID)
		add(user, meta.DefaultQuota)
		add(meta.DefaultQuota, clientID)
		add(meta.DefaultQuota, meta.DefaultQuota)
	case t.user != "":
		add(user, meta.QuotaName{})
		add(meta.DefaultQuota, meta.QuotaName{})
	default:
		add(meta.QuotaName{}, clientID)
		add(meta.QuotaName{}, meta.DefaultQuota)
	}
	for _, e := range levels[:n] {
		if limit := l[e][kind]; limit > 0 {
			return limit, true
		}
	}
	return 0, false
}
