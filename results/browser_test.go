//go:build browser

package results

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium, spoken to over a pipe in its DevTools
// protocol. SCREENSHOTS=DIR keeps the pictures.
type browser struct {
	t       *testing.T
	in      io.Writer
	answers chan message
	last    int
	session string
	// complaints are console messages, exceptions, and requests that are
	// neither the page itself nor data in it.
	complaints []string
}

type message struct {
	ID        int             `json:"id,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

const browserPatience = 60 * time.Second

func startBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("no Chromium in PATH: apt-get install chromium")
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	theirOut, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{theirOut, theirs} // its 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirOut.Close()
	theirs.Close()
	b := &browser{t: t, in: ourIn, answers: make(chan message, 1024)}
	go b.read(ours)
	t.Cleanup(func() {
		ourIn.Close() // it ends when its pipe does
		timer := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		ours.Close()
	})
	b.attach()
	return b
}

func (b *browser) read(from io.Reader) {
	defer close(b.answers)
	reader := bufio.NewReader(from)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m) == nil {
			b.answers <- m
		}
	}
}

// call waits for the answer and takes note of events meanwhile.
func (b *browser) call(method string, params any, result any) {
	b.t.Helper()
	b.last++
	sent, _ := json.Marshal(params)
	text, _ := json.Marshal(message{ID: b.last, Method: method, Params: sent, SessionID: b.session})
	if _, err := b.in.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	patience := time.After(browserPatience)
	for {
		select {
		case m, ok := <-b.answers:
			if !ok {
				b.t.Fatalf("%s: the browser is gone", method)
			}
			if m.ID != b.last {
				b.event(m)
				continue
			}
			if m.Error != nil {
				b.t.Fatalf("%s: %s", method, m.Error.Message)
			}
			if result != nil {
				if err := json.Unmarshal(m.Result, result); err != nil {
					b.t.Fatalf("%s: %v", method, err)
				}
			}
			return
		case <-patience:
			b.t.Fatalf("%s: no answer in %v", method, browserPatience)
		}
	}
}

func (b *browser) event(m message) {
	switch m.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		const enough = 600
		b.complaints = append(b.complaints, m.Method+" "+string(m.Params[:min(len(m.Params), enough)]))
	case "Network.requestWillBeSent":
		var request struct {
			Request struct{ URL string }
		}
		json.Unmarshal(m.Params, &request)
		if url := request.Request.URL; !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "file://") {
			b.complaints = append(b.complaints, "request to "+url)
		}
	}
}

func (b *browser) attach() {
	var made struct {
		TargetID string `json:"targetId"`
	}
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", struct{}{}, nil)
	}
}

// look is how a page is looked at.
type look struct {
	name          string
	width, height int
	scheme        string // light or dark
	phone         bool
}

func (b *browser) open(path string, l look) {
	b.t.Helper()
	scale := 1
	if l.phone {
		scale = 2
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": l.width, "height": l.height, "deviceScaleFactor": scale, "mobile": l.phone}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": l.scheme}}}, nil)
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.wait(`document.readyState === 'complete' && !document.getElementById('theme').hidden`)
}

// eval is what an expression gives, as JSON.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, out.ExceptionDetails)
	}
	if into != nil {
		if err := json.Unmarshal(out.Result.Value, into); err != nil {
			b.t.Fatalf("%s: %s: %v", expression, out.Result.Value, err)
		}
	}
}

func (b *browser) wait(condition string) {
	b.t.Helper()
	for deadline := time.Now().Add(browserPatience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var ok bool
		if b.eval("Boolean("+condition+")", &ok); ok {
			return
		}
	}
	b.t.Fatalf("never came true: %s; complaints: %v", condition, b.complaints)
}

// picture keeps a screenshot of the whole page, in strips of at most tall
// pixels, if SCREENSHOTS says where; the PNG of the first is returned.
func (b *browser) picture(name string, width int) []byte {
	b.t.Helper()
	const tall = 1800
	var height float64
	b.eval(`document.documentElement.scrollHeight`, &height)
	var first []byte
	keep := os.Getenv("SCREENSHOTS")
	for i, top := 0, 0.0; top < height && (i == 0 || keep != ""); i, top = i+1, top+tall {
		var shot struct {
			Data string `json:"data"`
		}
		b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": map[string]any{
			"x": 0, "y": top, "width": width, "height": min(tall, height-top), "scale": 1}}, &shot)
		png, err := base64.StdEncoding.DecodeString(shot.Data)
		if err != nil {
			b.t.Fatal(err)
		}
		if i == 0 {
			first = png
		}
		if keep != "" {
			if err := os.WriteFile(filepath.Join(keep, fmt.Sprintf("%s-%d.png", name, i)), png, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	return first
}

// buildAll scrolls down until every chart is drawn, and back.
func (b *browser) buildAll() {
	b.t.Helper()
	b.eval(`(async () => {
		for (let y = 0; y < document.documentElement.scrollHeight; y += 300) {
			scrollTo(0, y);
			await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
		}
		scrollTo(0, 0);
	})()`, nil)
	b.wait(`Number(document.documentElement.dataset.charts) === document.querySelectorAll('[data-chart]').length`)
}

func writePage(t *testing.T, r *Report) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReportInBrowser(t *testing.T) {
	full := sample{seed: 1, names: [4]string{"posthouse io_uring", "posthouse epoll", "kafka 4.4.0", "limit"},
		workloads: sampleWorkloads(), rounds: 5, seconds: 60}
	runs := full.runs()
	runs[2].Warn(WarnClientLimited, "busiest loop at 83 %% of a core, 70 %% is the bound")
	runs[6].Warn(WarnClientLimited, "busiest loop at 81 %% of a core, 70 %% is the bound")
	runs[len(runs)-1].Warn(WarnBehindSchedule, "p99 of sends 1.3 ms late, at most 4.2 ms")
	before := full
	before.seed, before.slower = 2, 1.25
	comparison := writePage(t, NewReport(runs, before.runs()))

	single := full.runs()[:1]
	single[0].Kind = KindLoad
	load := writePage(t, NewReport(single, nil))

	b := startBrowser(t)
	pictures := make(map[string][]byte)
	for _, l := range []look{
		{"light", 1280, 900, "light", false},
		{"dark", 1280, 900, "dark", false},
		{"phone", 390, 844, "light", true},
		{"phone-dark", 390, 844, "dark", true},
	} {
		for name, path := range map[string]string{"comparison": comparison, "load": load} {
			b.open(path, l)
			b.buildAll()
			var overflow, small float64
			b.eval(`document.documentElement.scrollWidth - innerWidth`, &overflow)
			if overflow > 0 {
				t.Errorf("%s %s: the page is %v px wider than the screen", name, l.name, overflow)
			}
			b.eval(`[...document.querySelectorAll('canvas')].filter((c) => c.clientWidth < 200 || c.clientHeight < 200).length`, &small)
			if small > 0 {
				t.Errorf("%s %s: %v charts are too small", name, l.name, small)
			}
			pictures[name+l.name] = b.picture(name+"-"+l.name, l.width)
		}
	}
	if bytes.Equal(pictures["comparisonlight"], pictures["comparisondark"]) {
		t.Error("the dark page looks as the light one")
	}
	b.buttons(comparison)
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(b.complaints, "\n"))
	}
}

// buttons presses what can be pressed.
func (b *browser) buttons(path string) {
	b.t.Helper()
	b.open(path, look{"buttons", 1280, 900, "light", false})
	background := func() (s string) {
		b.eval(`getComputedStyle(document.body).backgroundColor`, &s)
		return s
	}
	light := background()
	b.eval(`document.getElementById('theme').click()`, nil)
	dark := background()
	if light == dark {
		b.t.Errorf("the theme button leaves the background at %s", light)
	}
	// The choice outlives a reload, where the browser lets the page keep it.
	b.open(path, look{"again", 1280, 900, "light", false})
	if background() != dark {
		b.t.Error("the chosen theme is forgotten")
	}
	b.eval(`document.getElementById('theme').click()`, nil)
	if background() != light {
		b.t.Error("the theme does not go back")
	}
	b.eval(`document.getElementById('scale').click()`, nil)
	var label string
	b.eval(`document.getElementById('scale').textContent`, &label)
	if label != "Log ms" {
		b.t.Errorf("the scale button says %q", label)
	}
	// A page without scripts still shows its tables.
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
}
