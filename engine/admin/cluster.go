package admin

import (
	"context"
	"math"

	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a client may do, as bits of AclOperation (KIP-430). Without an
// authorizer everybody may do everything; Kafka then answers these.
const (
	notAsked          int32 = math.MinInt32
	clusterOperations int32 = 8096 // create, alter, describe, cluster action, describe and alter configs, idempotent write, two phase commit
	topicOperations   int32 = 3576 // read, write, create, delete, alter, describe, describe and alter configs
)

// operations returns the bits if they were asked for.
func operations(asked bool, bits int32) int32 {
	if asked {
		return bits
	}
	return notAsked
}

// liveBrokers returns the brokers that serve clients on a listener.
func liveBrokers(im *meta.Image, listener string) []node {
	nodes := make([]node, 0, len(im.Brokers))
	for i := range im.Brokers {
		b := &im.Brokers[i]
		if e, ok := b.Endpoint(listener); ok && !b.Fenced {
			nodes = append(nodes, node{b, e})
		}
	}
	return nodes
}

// node is a broker as the clients of one listener see it.
type node struct {
	*meta.Broker
	meta.Endpoint
}

// rack returns a broker's rack as responses have it.
func rack(b *meta.Broker) *string {
	if b.Rack == "" {
		return nil
	}
	return &b.Rack
}

// controllerID names a live broker that takes controller requests: any broker
// does, and the one in office is told where this listener can reach it. -1 if
// there is none.
func controllerID(im *meta.Image, nodes []node) int32 {
	for _, n := range nodes {
		if n.ID == im.ControllerID {
			return n.ID
		}
	}
	if len(nodes) > 0 {
		return nodes[0].ID
	}
	return -1
}

// The endpoint types of KIP-919.
const (
	endpointBroker     int8 = 1
	endpointController int8 = 2
)

// DescribeCluster serves v0–v2: the cluster's id and the brokers of the asking
// listener (KIP-700). v1 names the kind of endpoint (KIP-919): there are no
// controllers to talk to here. v2 may ask for fenced brokers too (KIP-1073).
func (h *Handlers) DescribeCluster(_ context.Context, req *kmsg.DescribeClusterRequest, cl Client) *kmsg.DescribeClusterResponse {
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.Version = req.Version
	resp.ControllerID = -1
	resp.EndpointType = endpointBroker
	resp.ClusterAuthorizedOperations = notAsked
	if req.EndpointType != endpointBroker {
		err := fail(kerr.UnsupportedEndpointType, "Unsupported endpoint type %d", req.EndpointType)
		if req.EndpointType == endpointController {
			err = fail(kerr.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
		}
		resp.ErrorCode, resp.ErrorMessage = h.answer("DescribeCluster", err)
		return resp
	}
	im := h.Image()
	nodes := liveBrokers(im, cl.Listener)
	resp.ClusterID = im.ClusterID
	resp.ControllerID = controllerID(im, nodes)
	resp.ClusterAuthorizedOperations = operations(req.IncludeClusterAuthorizedOperations, clusterOperations)
	for i := range im.Brokers {
		b := &im.Brokers[i]
		e, ok := b.Endpoint(cl.Listener)
		if !ok || b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack, out.IsFenced = b.ID, e.Host, e.Port, rack(b), b.Fenced
		resp.Brokers = append(resp.Brokers, out)
	}
	return resp
}
