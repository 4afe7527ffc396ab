package engine

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, v0–v5 (KafkaApis.handleInitProducerIdRequest,
// TransactionCoordinator.handleInitProducerId): without a transactional id,
// always a new producer id with epoch 0, whatever id the client had before. Only
// one of producer id and epoch, or an empty transactional id, is INVALID_REQUEST.
// Transactional producers are refused, see errUnsupportedTransactions.

func (lp *loop) initProducerID(k *call) {
	req := kmsg.NewPtrInitProducerIDRequest()
	if !k.decode(req) {
		return
	}
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch id := req.TransactionalID; {
	case (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = kerr.InvalidRequest.Code
	case id != nil && *id == "":
		resp.ErrorCode = kerr.InvalidRequest.Code
	case id != nil:
		resp.ErrorCode = errUnsupportedTransactions.Kerr.Code
	default:
		ids := &lp.engine.producerIDs
		if next, ok := ids.next(); ok {
			resp.ProducerID, resp.ProducerEpoch = next, 0
			break
		}
		lp.offLoop(k, req, func(op *coldOp, _ kmsg.Request) kmsg.Response {
			next, err := ids.refill(op.engine.ctx)
			if err != nil {
				if !expected(err) {
					op.engine.complain("no producer ids", "err", err)
				}
				resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code // retried
				return resp
			}
			resp.ProducerID, resp.ProducerEpoch = next, 0
			return resp
		})
		return
	}
	k.reply(resp)
}

// producerIDs hands out the ids of the block that the controller reserved for
// this node, and gets the next block when it is used up. What is left of a block
// at a stop is lost, so that no id is ever given twice.
type producerIDs struct {
	allocate func(context.Context) (first, count int64, err error)

	refilling sync.Mutex // held across allocate; never by a loop

	mu          sync.Mutex
	first, last int64 // [first, last) are free; guarded by mu
}

// next takes an id; false if the block is used up.
func (p *producerIDs) next() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == p.last {
		return 0, false
	}
	p.first++
	return p.first - 1, true
}

// refill takes an id, of a new block if need be. It may block.
func (p *producerIDs) refill(ctx context.Context) (int64, error) {
	p.refilling.Lock()
	defer p.refilling.Unlock()
	if id, ok := p.next(); ok {
		return id, nil
	}
	first, count, err := p.allocate(ctx)
	if err != nil {
		return 0, err
	}
	if count <= 0 || first < 0 {
		panic("BUG: empty block of producer ids")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first, p.last = first+1, first+count
	return first, nil
}
