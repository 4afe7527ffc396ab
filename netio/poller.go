package netio

import "time"

// poller is the platform split: what a loop asks of epoll or io_uring. All
// methods belong to the loop's goroutine, but wake.
//
// Input differs most between the two, so it is the poller that receives: it
// calls Loop.feed, or fills Conn.frame directly (Loop.directBuffer,
// Loop.filled), and Loop.inputEnded at the end. It must not receive while
// Conn.wantsInput is false, save for what the kernel had under way. Output is
// the same for both: the loop sends by direct system calls, which measured
// best, and asks for awaitWritable when the socket is full.
type poller interface {
	// add begins to watch a connection.
	add(c *Conn) error
	// inputChanged says that c.wantsInput may have changed.
	inputChanged(c *Conn)
	// resume continues a connection that the poller put on the loop's ready
	// list because it had more input than one turn allows.
	resume(c *Conn)
	// awaitWritable asks for one call of Loop.writable.
	awaitWritable(c *Conn)
	// remove stops watching c and closes its descriptor. The poller calls
	// Loop.forget when the kernel can no longer write into c's buffers, which
	// may be at once.
	remove(c *Conn)
	// watch begins or ends to watch a listening socket: Loop.acceptReady is
	// called while connections wait.
	watch(ln *listener, on bool) error
	// wait hands in what has happened, sleeping for at most d: zero does not
	// sleep, negative is without end.
	wait(d time.Duration) error
	// wake ends a wait that sleeps. Any goroutine.
	wake()
	close()
}
