package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/posthouse/posthouse/engine/metrics"
)

const (
	// httpReadTimeout and httpWriteTimeout bound one exchange; a profile may take
	// as long as it is asked to.
	httpReadTimeout  = 10 * time.Second
	httpWriteTimeout = 3 * time.Minute
	httpIdleTimeout  = 2 * time.Minute
	httpHeaderBytes  = 16 << 10
	// httpStopPatience is what a scrape under way gets at a stop.
	httpStopPatience = time.Second
)

// httpServer serves operators. It has nothing to do with netio: whoever scrapes
// does not belong on an event loop.
type httpServer struct {
	server    http.Server
	addresses []string // as bound
	serving   sync.WaitGroup
}

// startHTTP binds http.listeners and serves. An address that was asked for and
// cannot be had is an error. The default one is not worth refusing a start: two
// nodes on one machine are common, and the second says what it does without.
func (b *Broker) startHTTP() error {
	cfg := &b.static.HTTP
	var bound []net.Listener
	for _, address := range cfg.Listeners {
		l, err := net.Listen("tcp", address)
		switch {
		case err == nil:
			bound = append(bound, l)
		case cfg.Explicit:
			for _, l := range bound {
				_ = l.Close() // nobody has come yet
			}
			return fmt.Errorf("http.listeners: %w", err)
		default:
			b.logger.Warn("metrics and health are not served: set http.listeners to another address, or to nothing", "err", err)
		}
	}
	h := &httpServer{server: http.Server{
		Handler: b.httpHandler(), MaxHeaderBytes: httpHeaderBytes,
		ReadTimeout: httpReadTimeout, WriteTimeout: httpWriteTimeout, IdleTimeout: httpIdleTimeout,
		ErrorLog: slog.NewLogLogger(b.logger.Handler(), slog.LevelDebug),
	}}
	for _, l := range bound {
		h.addresses = append(h.addresses, l.Addr().String())
		h.serving.Go(func() {
			if err := h.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				b.logger.Error("metrics and health are not served any more", "address", l.Addr().String(), "err", err)
			}
		})
	}
	if len(bound) > 0 {
		b.logger.Info("serving metrics and health", "addresses", h.addresses, "pprof", cfg.Pprof)
	}
	b.http = h
	return nil
}

// HTTP lists the addresses on which metrics and health are served.
func (b *Broker) HTTP() []string { return b.http.addresses }

// stop ends the server; what is under way gets a moment.
func (h *httpServer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), httpStopPatience)
	defer cancel()
	if h.server.Shutdown(ctx) != nil {
		_ = h.server.Close() // cut off: that was the error
	}
	h.serving.Wait()
}

func (b *Broker) httpHandler() http.Handler {
	mux := http.NewServeMux()
	index := "/metrics\n/healthz\n/readyz\n"
	mux.HandleFunc("GET /metrics", b.serveMetrics())
	mux.HandleFunc("GET /healthz", b.serveHealth)
	mux.HandleFunc("GET /readyz", b.serveReady)
	if b.static.HTTP.Pprof {
		index += "/debug/pprof/\n"
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		noStore(w)
		_, _ = w.Write([]byte(index))
	})
	return mux
}

// serveMetrics answers /metrics. One scrape is made at a time: each is some work,
// and two that come together get the same answer anyway.
func (b *Broker) serveMetrics() http.HandlerFunc {
	process := prometheus.NewRegistry()
	process.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/sched/(pauses/total/gc|latencies):seconds$`)})))
	turn := make(chan struct{}, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		filter, err := topicFilter(r.URL.Query().Get("topic"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// The turn ends with the gathering: a client that reads slowly holds up
		// nobody.
		all := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return prometheus.Gatherers{process, metrics.Gatherer(b.sources(r.Context(), filter)...)}.Gather()
		})
		promhttp.HandlerFor(all, promhttp.HandlerOpts{
			ErrorLog:      slog.NewLogLogger(b.logger.Handler(), slog.LevelError),
			ErrorHandling: promhttp.ContinueOnError,
		}).ServeHTTP(w, r)
	}
}

// topicFilter says which topics have series: those that expr matches as a whole,
// all without one.
func topicFilter(expr string) (func(topic string) bool, error) {
	if expr == "" {
		return func(string) bool { return true }, nil
	}
	re, err := regexp.Compile("^(?:" + expr + ")$")
	if err != nil {
		return nil, fmt.Errorf("topic=%q: %w", expr, err)
	}
	return re.MatchString, nil
}
