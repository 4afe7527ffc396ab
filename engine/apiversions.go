package engine

import (
	"maps"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/netio/wire"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, v0–v5 (KIP-35, KIP-511, KIP-584, KIP-1242).
//
//   - A version above v5 is answered in the body of v0, with UNSUPPORTED_VERSION
//     and the range of ApiVersions alone, so that the client can ask again.
//   - v3+ names the client's software; a name or version outside
//     [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? is INVALID_REQUEST.
//   - v5 names the cluster and node that the client believes to reach, both or
//     neither; another cluster or node is REBOOTSTRAP_REQUIRED.
//   - Below v4 a supported feature whose lowest version is 0 is left out: old
//     Java clients refuse the whole answer (KAFKA-17011).
//   - The response header is v0 in every version.

// apiVersionsKey is the API key of ApiVersions.
const apiVersionsKey = wire.KeyApiVersions

// renderApiVersions returns the body of a successful answer in a version, with
// the feature levels that were set as of a revision. Clients switch protocol on
// what is finalized; a feature at level 0 is not.
func renderApiVersions(version int16, set map[string]int16, revision int64) []byte {
	resp := kmsg.NewApiVersionsResponse()
	resp.Version = version
	for i := range apis {
		resp.ApiKeys = append(resp.ApiKeys, apis[i].advertised())
	}
	for i := range config.Features {
		f := &config.Features[i]
		if version >= 4 || f.Min > 0 {
			resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: f.Name, MinVersion: f.Min, MaxVersion: f.Max})
		}
		if level := f.In(set); level > 0 {
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{Name: f.Name, MinVersionLevel: level, MaxVersionLevel: level})
		}
	}
	resp.FinalizedFeaturesEpoch = revision
	return resp.AppendTo(nil)
}

// renderApiVersionsError returns the body of a refusal.
func renderApiVersionsError(version int16, err *kerr.Error) []byte {
	resp := kmsg.NewApiVersionsResponse()
	resp.Version = version
	resp.ErrorCode = err.Code
	if err == kerr.UnsupportedVersion {
		resp.ApiKeys = append(resp.ApiKeys, lookupAPI(apiVersionsKey).advertised())
	}
	return resp.AppendTo(nil)
}

// advertised is the row as ApiVersions names it.
func (a *API) advertised() kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = a.Key, a.AdvertiseMin, a.Max
	return k
}

// apiVersionsBodies are the answers, rendered once for the features of an image.
type apiVersionsBodies struct {
	features    map[string]int16 // that were set when ok was rendered
	ok          [][]byte         // by version
	invalid     [][]byte         // INVALID_REQUEST, by version
	misrouted   [][]byte         // REBOOTSTRAP_REQUIRED, by version
	unsupported []byte           // v0
}

func newApiVersionsBodies(set map[string]int16, revision int64) *apiVersionsBodies {
	b := &apiVersionsBodies{features: set, unsupported: renderApiVersionsError(0, kerr.UnsupportedVersion)}
	for v := range lookupAPI(apiVersionsKey).Max + 1 {
		b.ok = append(b.ok, renderApiVersions(v, set, revision))
		b.invalid = append(b.invalid, renderApiVersionsError(v, kerr.InvalidRequest))
		b.misrouted = append(b.misrouted, renderApiVersionsError(v, kerr.RebootstrapRequired))
	}
	return b
}

// bodies returns the answers under the present features.
func (e *Engine) bodies() *apiVersionsBodies {
	im := e.image()
	b := e.apiVersionsBodies.Load()
	if b == nil || !maps.Equal(b.features, im.Features) {
		b = newApiVersionsBodies(im.Features, int64(im.Revision))
		e.apiVersionsBodies.Store(b)
	}
	return b
}

func (lp *loop) apiVersions(c *call) {
	bodies := lp.engine.bodies()
	v := c.header.Version
	if v > c.api.Max || v < 0 {
		c.replyBody(bodies.unsupported)
		return
	}
	body := bodies.ok[v]
	if v >= 3 {
		req := kmsg.NewPtrApiVersionsRequest()
		if !c.decode(req) {
			return
		}
		switch lp.engine.checkApiVersions(req) {
		case kerr.InvalidRequest:
			body = bodies.invalid[v]
		case kerr.RebootstrapRequired:
			body = bodies.misrouted[v]
		}
	}
	c.replyBody(body)
}

// checkApiVersions says what is wrong with a v3+ request; nil is nothing.
func (e *Engine) checkApiVersions(req *kmsg.ApiVersionsRequest) *kerr.Error {
	if !validSoftware(req.ClientSoftwareName) || !validSoftware(req.ClientSoftwareVersion) {
		return kerr.InvalidRequest
	}
	if (req.ClusterID != nil) != (req.NodeID != -1) {
		return kerr.InvalidRequest
	}
	if req.ClusterID != nil && (*req.ClusterID != e.image().ClusterID || req.NodeID != e.config.NodeID) {
		return kerr.RebootstrapRequired
	}
	return nil
}

// validSoftware matches [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?
func validSoftware(s string) bool {
	if s == "" || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if !alphanumeric(s[i]) && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
