package wire

// TopicID is the 16-byte Uuid of a topic or directory as it stands on the wire;
// record.TopicID has the same underlying type.
type TopicID = [16]byte

// LeaderIDAndEpoch is the leader hint of KIP-951. Where both are -1 there is none,
// and it is not written.
type LeaderIDAndEpoch struct {
	ID    int32
	Epoch int32
}

// noLeader is the default of a leader hint.
var noLeader = LeaderIDAndEpoch{ID: -1, Epoch: -1}

// NodeEndpoint is the address of a broker named in a leader hint (KIP-951), on
// the listener of the asking connection.
type NodeEndpoint struct {
	NodeID int32
	Host   string
	Port   int32
	Rack   string // "" = null
}

// decodeLeader reads the content of a tagged LeaderIdAndEpoch that ends at end.
func decodeLeader(in *reader, end int) (l LeaderIDAndEpoch) {
	start := in.pos
	l.ID = in.int32("CurrentLeader.LeaderId")
	l.Epoch = in.int32("CurrentLeader.LeaderEpoch")
	in.skipTags("CurrentLeader tags")
	in.endTag("CurrentLeader", start, end)
	return l
}

// appendLeader appends a tagged LeaderIdAndEpoch under the given tag.
func appendLeader(dst []byte, tag uint32, l LeaderIDAndEpoch) []byte {
	dst = appendTag(dst, tag, 9)
	dst = appendInt32(dst, l.ID)
	dst = appendInt32(dst, l.Epoch)
	return append(dst, 0)
}

// decodeResponseTags reads the last section of tagged fields of a Produce or Fetch
// response, whose only known one is NodeEndpoints, tag 0, from version since.
func decodeResponseTags(in *reader, nodes []NodeEndpoint, version, since int16) []NodeEndpoint {
	const tags = "response tags"
	nodes = nodes[:0]
	for n := in.tags(tags); n > 0 && in.ok(); n-- {
		at := in.pos
		tag, end := in.tag(tags)
		if tag != 0 {
			in.skipTo(end)
			continue
		}
		in.requireVersion(version >= since, tags, at, tag)
		start := in.pos
		nodes = resize(nodes, in.count("NodeEndpoints", true, 11))
		for i := range nodes {
			nodes[i] = NodeEndpoint{
				NodeID: in.int32("NodeEndpoints.NodeId"),
				Host:   string(in.string("NodeEndpoints.Host", true)),
				Port:   in.int32("NodeEndpoints.Port"),
				Rack:   string(in.nullableString("NodeEndpoints.Rack", true)),
			}
			if in.skipTags("NodeEndpoints tags"); !in.ok() {
				return nodes
			}
		}
		in.endTag("NodeEndpoints", start, end)
	}
	return nodes
}

// appendResponseTags appends what decodeResponseTags reads; without nodes an empty
// section.
func appendResponseTags(dst []byte, nodes []NodeEndpoint) []byte {
	if len(nodes) == 0 {
		return append(dst, 0)
	}
	size := uvarintSize(uint32(len(nodes) + 1))
	for i := range nodes {
		n := &nodes[i]
		size += 4 + uvarintSize(uint32(len(n.Host)+1)) + len(n.Host) + 4 + uvarintSize(uint32(len(n.Rack)+1)) + len(n.Rack) + 1
	}
	dst = append(dst, 1)
	dst = appendTag(dst, 0, uint32(size))
	dst = appendLength(dst, len(nodes), true)
	for i := range nodes {
		n := &nodes[i]
		dst = appendInt32(dst, n.NodeID)
		dst = appendString(dst, n.Host, true)
		dst = appendInt32(dst, n.Port)
		dst = appendMessage(dst, n.Rack, true)
		dst = append(dst, 0)
	}
	return dst
}
