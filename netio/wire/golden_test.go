package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// goldenFrame is a request that Apache Kafka 4.4 was sent and the answer it gave;
// both without their length prefix. golden_capture_test.go makes the files.
type goldenFrame struct {
	Name     string `json:"name"`
	Version  int16  `json:"version"`
	Request  hexed  `json:"request"`
	Response hexed  `json:"response"`
}

// hexed is bytes that stand in JSON as hexadecimal digits.
type hexed []byte

func (h hexed) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

func (h *hexed) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// goldenAPIs are the APIs of testdata/golden, with the versions that each file
// must hold.
var goldenAPIs = []struct {
	name        string
	key         int16
	least, most int16
}{
	{"Produce", 0, 3, 13},
	{"Fetch", 1, 4, 18},
	{"ListOffsets", 2, 1, 11},
	{"Metadata", 3, 0, 13},
	{"ApiVersions", 18, 0, 5},
	{"CreateTopics", 19, 2, 7},
}

// kmsgFlexible is the rule of request headers for the tests, from kmsg; as in
// Kafka it goes on above the newest version.
func kmsgFlexible(key, version int16) bool {
	request := kmsg.RequestForKey(key)
	if request == nil {
		return false
	}
	request.SetVersion(version)
	return request.IsFlexible()
}

// goldenCodecs are empty messages for the bodies of an API: this package's for the
// hot ones, else kmsg's.
func goldenCodecs(key, version int16) (request, response codec) {
	switch key {
	case KeyProduce:
		return new(ProduceRequest), new(ProduceResponse)
	case KeyFetch:
		return new(FetchRequest), new(FetchResponse)
	}
	q := kmsg.RequestForKey(key)
	q.SetVersion(version)
	return kmsgMessage{q}, kmsgMessage{q.ResponseKind()}
}

// kmsgMessage makes a kmsg value a codec.
type kmsgMessage struct{ kmsgCodec }

func (m kmsgMessage) Decode(version int16, body []byte) error {
	m.SetVersion(version)
	return m.ReadFrom(body)
}

func (m kmsgMessage) append(dst []byte, _ int16) []byte { return m.AppendTo(dst) }
func (m kmsgMessage) kmsgValue(int16) kmsgCodec         { return m.kmsgCodec }

func TestGolden(t *testing.T) {
	for _, api := range goldenAPIs {
		t.Run(api.name, func(t *testing.T) {
			frames := readGolden(t, api.name)
			missing := map[int16]bool{}
			for version := api.least; version <= api.most; version++ {
				missing[version] = true
			}
			for _, f := range frames {
				t.Run(fmt.Sprintf("v%d/%s", f.Version, strings.ReplaceAll(f.Name, " ", "_")), func(t *testing.T) {
					checkGolden(t, api.key, f)
				})
				delete(missing, f.Version)
			}
			if len(missing) > 0 {
				t.Errorf("no frames of versions %v", missing)
			}
		})
	}
}

func readGolden(t *testing.T, name string) (frames []goldenFrame) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "golden", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &frames); err != nil {
		t.Fatal(err)
	}
	return frames
}

// checkGolden decodes both frames and encodes them again to the very same bytes.
func checkGolden(t *testing.T, key int16, f goldenFrame) {
	h, err := ParseRequestHeader(f.Request, kmsgFlexible)
	if err != nil || h.Key != key || h.Version != f.Version {
		t.Fatalf("header %+v, %v", h, err)
	}
	flexible := kmsgFlexible(key, f.Version)
	request, response := goldenCodecs(key, f.Version)
	if err := request.Decode(f.Version, h.Body); err != nil {
		t.Fatal(err)
	}
	again := AppendRequestHeader(nil, h.Key, h.Version, h.CorrelationID, h.ClientID, flexible)
	same(t, "request", request.append(again, f.Version), f.Request)

	id, body, err := ParseResponseHeader(f.Response, key, flexible)
	if err != nil || id != h.CorrelationID {
		t.Fatalf("response to %d where %d was asked, %v", id, h.CorrelationID, err)
	}
	version := f.Version
	if key == KeyApiVersions && version > response.kmsgValue(0).(*kmsg.ApiVersionsResponse).MaxVersion() {
		version = 0 // what Kafka answers to a version that it does not know (KIP-511)
	}
	if err := response.Decode(version, body); err != nil {
		t.Fatal(err)
	}
	again = AppendResponseHeader(nil, key, f.Version, id, flexible)
	same(t, "response", response.append(again, version), f.Response)
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s changed:\nis  %x\nwas %x", what, got, want)
	}
}
