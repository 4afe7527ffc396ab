package engine

import (
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

// supportedFeatures are the features of KIP-584 that this broker implements.
// Clients switch protocol on what is finalized, so a feature is added with its
// implementation and not before. metadata.version is Kafka 4.4's range, kept for
// tools that read it as the release; kraft.version stands for a raft quorum of
// which there is none, and is never finalized above 0.
var supportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{
	{Name: "metadata.version", MinVersion: 7, MaxVersion: 33},
	{Name: "kraft.version", MinVersion: 0, MaxVersion: 1},
}

var finalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{
	{Name: "metadata.version", MinVersionLevel: 33, MaxVersionLevel: 33},
}

// renderApiVersions returns the body of a successful answer in a version.
func renderApiVersions(version int16) []byte {
	resp := kmsg.NewApiVersionsResponse()
	resp.Version = version
	for i := range apis {
		resp.ApiKeys = append(resp.ApiKeys, apis[i].advertised())
	}
	for _, f := range supportedFeatures {
		if version >= 4 || f.MinVersion > 0 {
			resp.SupportedFeatures = append(resp.SupportedFeatures, f)
		}
	}
	resp.FinalizedFeaturesEpoch = 0
	resp.FinalizedFeatures = finalizedFeatures
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

// apiVersionsBodies are the answers, rendered once.
type apiVersionsBodies struct {
	ok          [][]byte // by version
	invalid     [][]byte // INVALID_REQUEST, by version
	misrouted   [][]byte // REBOOTSTRAP_REQUIRED, by version
	unsupported []byte   // v0
}

func newApiVersionsBodies() *apiVersionsBodies {
	b := &apiVersionsBodies{unsupported: renderApiVersionsError(0, kerr.UnsupportedVersion)}
	for v := range lookupAPI(apiVersionsKey).Max + 1 {
		b.ok = append(b.ok, renderApiVersions(v))
		b.invalid = append(b.invalid, renderApiVersionsError(v, kerr.InvalidRequest))
		b.misrouted = append(b.misrouted, renderApiVersionsError(v, kerr.RebootstrapRequired))
	}
	return b
}

func (lp *loop) apiVersions(c *call) {
	bodies := lp.engine.apiVersionsBodies
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
