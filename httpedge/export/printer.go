package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Printer renders an HTML page as PDF. It writes nothing to out unless the PDF is complete.
type Printer interface {
	PDF(ctx context.Context, html io.Reader, out io.Writer) error
}

// Failures of a Printer.
var (
	ErrBusy     error = unavailableError("too many exports wait for the browser")
	ErrTooLarge       = errors.New("export: the page is too large for a PDF")
	ErrTimeout  error = unavailableError("the browser did not finish in time")
)

// unavailableError is an error that the edge reports as temporary.
type unavailableError string

func (e unavailableError) Error() string { return "export: " + string(e) }

// Unavailable tells the edge that a retry may succeed.
func (e unavailableError) Unavailable() bool { return true }

// ChromiumConfig configures a Chromium.
type ChromiumConfig struct {
	// Path is the program, by name or path.
	Path string
	// Timeout bounds the rendering of one PDF, excluding the wait for its turn. Default 30 s.
	Timeout time.Duration
	// Idle is how long a browser may use no processor time before another one is started in its place, once. Default 5 s.
	Idle time.Duration
	// MaxConcurrent is how many browsers run at once, each with some 200 MB. Default 1.
	MaxConcurrent int
	// MaxWaiting is how many more PDFs may wait for their turn; beyond it ErrBusy. Default 16.
	MaxWaiting int
	// MaxBytes bounds the page and the PDF, each. Default 64 MiB.
	MaxBytes int64
	// TempDir holds the browsers' directories. Default: the system's. A long path fails: a browser creates a socket
	// there.
	TempDir string
	// NoSandbox starts the browser without its own sandbox, which is necessary where this process may not create
	// namespaces. Root implies it. The pages run no scripts and load nothing either way.
	NoSandbox bool
}

// Chromium is a Printer that runs a headless Chromium or Chrome.
type Chromium struct {
	config  ChromiumConfig
	program string
	running chan struct{}
	waiting chan struct{}
}

// NewChromium finds the program.
func NewChromium(config ChromiumConfig) (*Chromium, error) {
	const (
		timeout = 30 * time.Second
		idle    = 5 * time.Second
		waiting = 16
		most    = 64 << 20
	)
	program, err := exec.LookPath(config.Path)
	if err != nil {
		return nil, fmt.Errorf("export: find the browser: %w", err)
	}
	if config.Timeout <= 0 {
		config.Timeout = timeout
	}
	if config.Idle <= 0 {
		config.Idle = idle
	}
	if config.MaxWaiting <= 0 {
		config.MaxWaiting = waiting
	}
	if config.MaxBytes <= 0 {
		config.MaxBytes = most
	}
	config.MaxConcurrent = max(config.MaxConcurrent, 1)
	config.NoSandbox = config.NoSandbox || os.Geteuid() == 0
	return &Chromium{
		config: config, program: program,
		running: make(chan struct{}, config.MaxConcurrent),
		waiting: make(chan struct{}, config.MaxConcurrent+config.MaxWaiting),
	}, nil
}

// PDF implements Printer.
func (c *Chromium) PDF(ctx context.Context, html io.Reader, out io.Writer) error {
	select {
	case c.waiting <- struct{}{}:
		defer func() { <-c.waiting }()
	default:
		return ErrBusy
	}
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-ctx.Done():
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	dir, err := os.MkdirTemp(c.config.TempDir, "parley-export-")
	if err != nil {
		return fmt.Errorf("export: make the browser's folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's temporary directory, which is cleaned by the system
	if err = c.writePage(dir, html); err != nil {
		return err
	}
	if err = c.print(limited, dir, "first"); errors.Is(err, errIdle) {
		err = c.print(limited, dir, "second")
	}
	switch {
	case err == nil:
		return c.deliver(filepath.Join(dir, pdfFile), out)
	case ctx.Err() == nil && (limited.Err() != nil || errors.Is(err, errIdle)):
		return ErrTimeout
	}
	return err
}

const (
	htmlFile = "page.html"
	pdfFile  = "page.pdf"
)

// errIdle ends a browser that does nothing any more and has not written a PDF.
var errIdle = errors.New("export: the browser does nothing")

// writePage writes the page to dir.
func (c *Chromium) writePage(dir string, html io.Reader) error {
	page, err := os.Create(filepath.Join(dir, htmlFile))
	if err != nil {
		return fmt.Errorf("export: write the page: %w", err)
	}
	n, err := io.Copy(page, io.LimitReader(html, c.config.MaxBytes+1))
	if err = errors.Join(err, page.Close()); err != nil {
		return fmt.Errorf("export: write the page: %w", err)
	}
	if n > c.config.MaxBytes {
		return ErrTooLarge
	}
	return nil
}

// print runs a browser, with a profile of that name, until it has written the PDF to dir. A browser may hang before that, and also when
// it should end.
func (c *Chromium) print(ctx context.Context, dir, profile string) error {
	if err := writeProfile(filepath.Join(dir, profile)); err != nil {
		return err
	}
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	stderr := &tail{}
	command := exec.CommandContext(ctx, c.program, c.arguments(dir, profile)...)
	command.Dir, command.Stderr = dir, stderr
	// The browser gets nothing of this process's environment; it needs a home directory to write to.
	command.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	const patience = 2 * time.Second // for the end of its child processes
	command.WaitDelay = patience
	killTogether(command)
	if err := command.Start(); err != nil {
		return fmt.Errorf("export: start the browser: %w", err)
	}
	var exit error
	ended := make(chan struct{})
	go func() { exit = command.Wait(); close(ended) }()
	done, err := c.watch(ended, command.Process.Pid, filepath.Join(dir, pdfFile))
	if !done {
		kill()
	}
	<-ended
	if done && exit != nil {
		return fmt.Errorf("export: the browser failed: %w: %s", exit, stderr)
	}
	return err
}

// watch returns when the browser is done: it has ended; or when it is to be ended: the PDF is whole, or errIdle.
func (c *Chromium) watch(ended <-chan struct{}, group int, pdf string) (done bool, err error) {
	const (
		lookEvery = 50 * time.Millisecond
		something = 50 * time.Millisecond // a browser that hangs still has timers
	)
	var written int64
	used, since := processorTime(group), time.Now()
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	for {
		select {
		case <-ended:
			return true, nil
		case <-looks.C:
		}
		size := wholeSize(pdf)
		if size > 0 && size == written {
			return false, nil
		}
		written = size
		if time.Since(since) < c.config.Idle {
			continue
		}
		now := processorTime(group)
		if now >= 0 && now-used < something {
			return false, errIdle
		}
		used, since = now, time.Now()
	}
}

// wholeSize is the size of a PDF that has its end, 0 if it does not.
func wholeSize(name string) int64 {
	file, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	end := make([]byte, min(info.Size(), 16))
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil || !bytes.HasSuffix(bytes.TrimSpace(end), []byte("%%EOF")) {
		return 0
	}
	return info.Size()
}

// writeProfile turns scripts off for all pages. The command line flag for that would also stop the printing page.
func writeProfile(dir string) error {
	const noScripts = `{"profile":{"default_content_setting_values":{"javascript":2}}}`
	folder := filepath.Join(dir, "Default")
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "Preferences"), []byte(noScripts), 0o600)
	}
	if err != nil {
		return fmt.Errorf("export: write the browser's profile: %w", err)
	}
	return nil
}

func (c *Chromium) arguments(dir, profile string) []string {
	arguments := []string{
		"--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
		"--no-first-run", "--no-default-browser-check", "--disable-default-apps", "--disable-extensions",
		"--disable-component-update", "--disable-background-networking", "--disable-sync", "--disable-breakpad",
		"--disable-domain-reliability", "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
		// No network: no name resolves, and requests to addresses go to a proxy that does not exist.
		"--host-resolver-rules=MAP * ~NOTFOUND", "--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>",
		"--user-data-dir=" + filepath.Join(dir, profile),
		"--no-pdf-header-footer", "--print-to-pdf=" + filepath.Join(dir, pdfFile),
	}
	if c.config.NoSandbox {
		arguments = append(arguments, "--no-sandbox")
	}
	return append(arguments, "file://"+filepath.Join(dir, htmlFile))
}

// deliver copies the PDF, after checking that it is one.
func (c *Chromium) deliver(name string, out io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("export: the browser made no PDF: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("export: the browser made no PDF: %w", err)
	}
	if info.Size() > c.config.MaxBytes {
		return ErrTooLarge
	}
	const magic = "%PDF-"
	head := make([]byte, len(magic))
	if _, err := file.ReadAt(head, 0); err != nil || string(head) != magic {
		return errors.New("export: what the browser made is no PDF")
	}
	if _, err := io.Copy(out, file); err != nil {
		return fmt.Errorf("export: hand over the PDF: %w", err)
	}
	return nil
}

// tail keeps the end of a process's output.
type tail struct{ kept []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 2 << 10
	t.kept = append(t.kept, p...)
	if len(t.kept) > most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-most:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "?") }
