package netio

const prefixBytes = 4

// Reply is one contiguous run of bytes with file ranges cut in. netio writes
// the length prefix itself.
type Reply struct {
	// Buf is the response header and body, without prefix and ranges: append
	// to it, or replace it. It keeps its capacity from request to request. It
	// must not alias the request's payload, which is released by Done.
	Buf []byte

	spans  []span
	prefix [prefixBytes]byte

	// What has been sent: bytes of prefix and Buf, whole spans, and bytes of
	// the span at index span.
	sent     int
	span     int
	spanSent int64
	// readAhead is up to where in that span a worker has just read: that much
	// is sent without a probe.
	readAhead int64
}

// span is a file range that follows the first at bytes of Buf.
type span struct {
	FileRange
	at int
}

// Splice puts f behind the bytes appended to Buf so far. netio releases its
// Owner when it is sent or will never be.
func (p *Reply) Splice(f FileRange) {
	if f.Length <= 0 {
		if f.Owner != nil {
			f.Owner.Release()
		}
		return
	}
	p.spans = append(p.spans, span{FileRange: f, at: len(p.Buf)})
}

// Reset drops what was put in the reply, for a handler that has to begin
// again (an error half way).
func (p *Reply) Reset() {
	p.releaseSpans()
	p.Buf = p.Buf[:0]
	p.sent, p.span, p.spanSent, p.readAhead = 0, 0, 0, 0
}

func (p *Reply) releaseSpans() {
	for i := p.span; i < len(p.spans); i++ {
		if o := p.spans[i].Owner; o != nil {
			o.Release()
		}
	}
	clear(p.spans)
	p.spans = p.spans[:0]
}

// run is the bytes that are to go next, up to the next span or the end:
// some of the prefix, some of Buf.
func (p *Reply) run() (prefix, body []byte) {
	end := len(p.Buf)
	if p.span < len(p.spans) {
		end = p.spans[p.span].at
	}
	if p.sent < prefixBytes {
		return p.prefix[p.sent:], p.Buf[:end]
	}
	return nil, p.Buf[p.sent-prefixBytes : end]
}

// complete reports whether everything has been sent.
func (p *Reply) complete() bool {
	return p.span == len(p.spans) && p.sent == prefixBytes+len(p.Buf)
}
