package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// loopStall is how long an event loop may take for one turn before the node
	// counts as dead: far above what a slow disk costs, and short enough for a
	// supervisor.
	loopStall = 3 * time.Second
	// probePatience is how long a health check waits for disks and the store.
	probePatience = 2 * time.Second
)

// healthy says why the node should be killed and started again, or nil: an event
// loop that does not turn serves nobody, and does not come back by itself. It
// asks neither disks nor the metadata store, whose trouble a restart would not
// mend. While the node stops its loops end, and it is healthy.
func (b *Broker) healthy(ctx context.Context) error {
	if b.stopping.Load() {
		return nil
	}
	var stuck []string
	for i, r := range b.visitLoops(ctx, b.loopStall) {
		if r == nil {
			stuck = append(stuck, fmt.Sprint(i))
		}
	}
	if len(stuck) > 0 && !b.stopping.Load() {
		return fmt.Errorf("event loop %s has not turned for %v", strings.Join(stuck, ", "), b.loopStall)
	}
	return nil
}

// readyCheck is one line of /readyz.
type readyCheck struct {
	what string
	err  error
}

// readiness says what keeps clients from being sent here. Everything is looked
// at, so that one answer names all that is wrong.
func (b *Broker) readiness(ctx context.Context) []readyCheck {
	checks := []readyCheck{{"stop", nil}, {"logs", b.logsReady()}, {"log directories", b.dirsReady()}, {"metadata", b.metadataReady(ctx)}}
	if b.stopping.Load() {
		checks[0].err = errors.New("the node is stopping")
	}
	return checks
}

func ready(checks []readyCheck) bool {
	for _, c := range checks {
		if c.err != nil {
			return false
		}
	}
	return true
}

func (b *Broker) logsReady() error {
	select {
	case <-b.loaded:
		if b.loadErr != nil {
			return fmt.Errorf("could not be loaded: %w", b.loadErr)
		}
		return nil
	default:
	}
	done, total := b.loadDone.Load(), b.loadTotal.Load()
	if total == 0 {
		return errors.New("being looked for")
	}
	return fmt.Errorf("%d of %d open", done, total)
}

func (b *Broker) dirsReady() error {
	dirs, fresh := b.dirs.get(probePatience)
	if !fresh {
		return fmt.Errorf("no answer from the file system for %v", probePatience)
	}
	var errs []error
	for _, d := range dirs {
		if d.Err != nil {
			errs = append(errs, d.Err)
		}
	}
	return errors.Join(errs...)
}

// metadataReady says whether a change of metadata could be committed: a node that
// cannot is not sent new clients, though it serves those it has.
func (b *Broker) metadataReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	return b.store.Ready(ctx)
}

// serveHealth answers /healthz.
func (b *Broker) serveHealth(w http.ResponseWriter, r *http.Request) {
	noStore(w)
	if err := b.healthy(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "not healthy: %v\n", err)
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// serveReady answers /readyz with a line for each check.
func (b *Broker) serveReady(w http.ResponseWriter, r *http.Request) {
	noStore(w)
	checks := b.readiness(r.Context())
	var text strings.Builder
	verdict := "ready"
	if !ready(checks) {
		verdict = "not ready"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Fprintln(&text, verdict)
	for _, c := range checks {
		state := "ok"
		if c.err != nil {
			state = strings.ReplaceAll(c.err.Error(), "\n", "; ")
		}
		fmt.Fprintf(&text, "%s: %s\n", c.what, state)
	}
	_, _ = w.Write([]byte(text.String()))
}

// noStore keeps proxies from answering for the node.
func noStore(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}
