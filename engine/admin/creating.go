package admin

import "sync"

// creating remembers topics that are being created because a client asked for
// their metadata, so that a crowd of clients asks the controller once.
type creating struct {
	mu    sync.Mutex
	names map[string]struct{} // guarded by mu
}

// begin reports whether the caller is the one who creates the topic; it must
// then call end.
func (c *creating) begin(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, busy := c.names[name]; busy {
		return false
	}
	c.names[name] = struct{}{}
	return true
}

func (c *creating) end(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, name)
}
