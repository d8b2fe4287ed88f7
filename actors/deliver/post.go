package deliver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// PosterConfig is what a Poster needs. Guard is required; the other zero values mean the defaults.
type PosterConfig struct {
	Guard *Guard
	// Timeout bounds one post, including redirects and reading the answer. Default 10 s.
	Timeout time.Duration
	// MaxAnswer bounds how much of an answer is read, in bytes. A longer one is cut (Answer.Cut). Default 64 KiB.
	MaxAnswer int64
	// UserAgent names this server. Default "parley".
	UserAgent string
	// Carry keeps the headers that sign and name a post (X-Service-...) on a redirect to another host, and posts again
	// after 301 and 302, too. It is for receivers that may move. The headers prove the body and hold no other secret.
	Carry bool
	// Stay returns a redirect as the answer, wherever it leads, instead of following it.
	Stay bool
	// HeadOnly makes the status the answer, whatever happens to the body. Answer does not contain the body then.
	HeadOnly bool
	// Now is the clock of the signatures. Default time.Now.
	Now func() time.Time
}

// Poster pushes JSON to addresses that were configured, or that a request named. Safe for concurrent use.
type Poster struct {
	config PosterConfig
	client *http.Client
}

// NewPoster makes a Poster.
func NewPoster(config PosterConfig) (*Poster, error) {
	if config.Guard == nil {
		return nil, errors.New("deliver: a poster needs a guard")
	}
	if config.Timeout < 0 || config.MaxAnswer < 0 {
		return nil, errors.New("deliver: no setting may be negative")
	}
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.MaxAnswer = cmp.Or(config.MaxAnswer, 64<<10)
	config.UserAgent = cmp.Or(config.UserAgent, "parley")
	if config.Now == nil {
		config.Now = time.Now
	}
	client := config.Guard.Client(config.Timeout)
	follow := client.CheckRedirect
	client.CheckRedirect = func(next *http.Request, before []*http.Request) error {
		if config.Carry {
			if err := repost(next, before[0]); err != nil {
				return err
			}
		}
		if next.Method != http.MethodPost { // 301, 302 and 303 would deliver nothing
			return fmt.Errorf("%w: it turns a POST into a %s", ErrRedirect, next.Method)
		}
		if err := follow(next, before); err != nil {
			return err
		}
		if config.Carry {
			carry(next, before[0])
		}
		return nil
	}
	return &Poster{config: config, client: client}, nil
}

// repost turns the hop after a 301 or 302 back into a post; net/http makes it a GET (document 3, 14.1).
func repost(next, first *http.Request) error {
	if next.Method == http.MethodPost || next.Response == nil || next.Response.StatusCode == http.StatusSeeOther {
		return nil
	}
	body, err := first.GetBody()
	if err != nil {
		return err
	}
	next.Method, next.Body, next.GetBody, next.ContentLength = first.Method, body, first.GetBody, first.ContentLength
	next.Header.Set("Content-Type", first.Header.Get("Content-Type"))
	return nil
}

func carry(next, first *http.Request) {
	for name, values := range first.Header {
		if strings.HasPrefix(name, "X-Service-") {
			next.Header[name] = values
		}
	}
}

// Post is one push.
type Post struct {
	URL    string            // http or https
	Body   []byte            // JSON
	Secret string            // signs the body; empty = not signed
	Header map[string]string // besides; may replace User-Agent
}

// Answer is the response of the other side.
type Answer struct {
	Status int
	Body   []byte
	Cut    bool // the body was longer than MaxAnswer
	// RetryAfter is the pause that the other side asks for (header Retry-After); 0 = none.
	RetryAfter time.Duration
	// Head is the status line and the header fields for people, of a poster that wants no bodies: at most maxHead bytes, without secrets.
	Head string
}

// OK reports whether the other side accepted the post: a 2xx status.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Post makes one attempt. It fails if there was no answer: ErrForbiddenAddress, ErrRedirect, a bad URL, a timeout or a broken
// connection. The error's text contains no URL and no header. A status other than 2xx is not an error.
func (p *Poster) Post(ctx context.Context, post Post) (*Answer, error) {
	if err := CheckURL(post.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, post.URL, bytes.NewReader(post.Body))
	if err != nil {
		return nil, ErrBadURL
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", p.config.UserAgent)
	for name, value := range post.Header {
		request.Header.Set(name, value)
	}
	if post.Secret != "" {
		request.Header.Set(SignatureHeader, Sign(post.Secret, post.Body, p.config.Now()))
	}
	response, err := p.do(request)
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", WithoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	if p.config.HeadOnly {
		late := time.AfterFunc(drainTime, cancel)
		defer late.Stop()
		_, _ = io.CopyN(io.Discard, response.Body, drainBytes) // so that the connection may be used again
		return &Answer{Status: response.StatusCode, RetryAfter: p.retryAfter(response.Header), Head: headOf(response)}, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, p.config.MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("deliver: %w", WithoutURL(err))
	}
	answer := &Answer{Status: response.StatusCode, Body: body, RetryAfter: p.retryAfter(response.Header)}
	if int64(len(body)) > p.config.MaxAnswer {
		answer.Body, answer.Cut = body[:p.config.MaxAnswer], true
	}
	return answer, nil
}

// How much of a body is read that nobody wants, and for how long.
const (
	drainBytes = 4 << 10
	drainTime  = 100 * time.Millisecond
)

// do sends a request. A client reads where a redirect leads before it asks whether to follow, and fails if that is no URL.
func (p *Poster) do(request *http.Request) (*http.Response, error) {
	if !p.config.Stay {
		return p.client.Do(request)
	}
	response, err := p.client.Transport.RoundTrip(request)
	if err != nil {
		return nil, &url.Error{Op: request.Method, Err: err} // as a client's: WithoutURL knows a timeout by it
	}
	return response, nil
}

// retryAfter reads the header Retry-After: seconds, or a date.
func (p *Poster) retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	const most = 24 * 60 * 60
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(min(seconds, most)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(p.config.Now()), most*time.Second))
}

// ErrBadURL means that a text is not a URL that can be posted to.
var ErrBadURL = errors.New("deliver: not an http or https URL")

// CheckURL returns ErrBadURL unless a text is an absolute http or https URL without user information. Its address is checked when
// a connection is made.
func CheckURL(text string) error {
	target, err := url.Parse(text)
	if err != nil || target.Hostname() == "" || (target.Scheme != "http" && target.Scheme != "https") || target.User != nil {
		return ErrBadURL
	}
	return nil
}

// WithoutURL removes the URL from an error of net/http, since its query may hold a secret.
func WithoutURL(err error) error {
	wrapped, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	if wrapped.Timeout() && !errors.Is(err, context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return wrapped.Err
}
