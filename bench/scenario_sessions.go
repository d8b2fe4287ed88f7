package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// sessionPage is the number of sessions in a page of the list: the maximum.
const sessionPage = 100

// sessionTitle is that of all sessions, of which a part is searched for.
const sessionTitle = "Listed session"

// firstPageEvery: one request of so many is for the first page, the usual one. The others go through the whole list
// page by page.
const firstPageEvery = 10

// runSessions creates -records sessions and lists them in pages of 100: all, those of an agent, idle ones, and those of a title. Each
// walk through the list must show every session once, newest first.
func runSessions(ctx context.Context, o *Options, live *progress) (*Report, error) {
	api, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer api.close()
	made, took, err := makeSessions(ctx, api, live)
	if err != nil {
		return nil, err
	}
	kinds := []struct{ name, query string }{
		{"all", ""},
		{"of an agent", "&agent=" + url.QueryEscape(o.Agent)},
		{"idle", "&status=idle"},
		{"of a title", "&q=" + url.QueryEscape(sessionTitle[1:])},
	}
	first, further := newTally(), make([]*tally, len(kinds))
	walks := make([]*walk, o.Concurrency)
	for i := range walks {
		walks[i] = &walk{api: api, made: made, query: kinds[i%len(kinds)].query, first: newTally()}
	}
	l := &load{options: o, live: live, op: func(caller, n int) error { return walks[caller].request(n) }}
	var before stats
	l.begin = func() {
		before = serverStats(ctx, o)
		for _, w := range walks {
			w.first, w.further = newTally(), newTally()
		}
	}
	for _, w := range walks {
		w.further = newTally()
	}
	total, spent := l.run(ctx)
	report := newReport(o, total, spent)
	for i := range kinds {
		further[i] = newTally()
	}
	for i, w := range walks {
		first.merge(w.first)
		further[i%len(kinds)].merge(w.further)
		report.Faults = append(report.Faults, w.faults...)
		report.Numbers["whole walks"] += float64(w.whole)
	}
	report.Latencies["first page"] = latency(first.latency)
	for i, kind := range kinds {
		if further[i].ok > 0 {
			report.Latencies["page further on, "+kind.name] = latency(further[i].latency)
		}
	}
	report.Numbers["sessions"] = float64(len(made))
	report.Numbers["sessions made per second"] = float64(len(made)) / took.Seconds()
	before.difference(report, serverStats(ctx, o))
	return report, ctx.Err()
}

// makeSessions creates the sessions and returns their ids.
func makeSessions(ctx context.Context, api *client, live *progress) (map[string]struct{}, time.Duration, error) {
	ids := make([]string, cmp.Or(api.options.Records, 100_000))
	body := fmt.Appendf(nil, `{"agent":%q,"title":%q}`, api.options.Agent, sessionTitle)
	began := time.Now()
	err := prepare(ctx, live, "creating sessions", len(ids), func(i int) error {
		return api.call("POST", "/agents/sessions", body, 201, func(answer []byte) error {
			id, _, ok := nextSession(answer)
			if !ok {
				return errBadPage
			}
			ids[i] = id
			return nil
		})
	})
	if err != nil {
		return nil, 0, fmt.Errorf("create sessions: %w", err)
	}
	took, made := time.Since(began), make(map[string]struct{}, len(ids))
	for _, id := range ids {
		made[id] = struct{}{}
	}
	if len(made) != len(ids) {
		return nil, 0, errors.New("create sessions: two have the same id")
	}
	return made, took, nil
}

var errBadPage = &callError{Status: 200, Code: "bad answer"}

// walk is one caller's traversal of the list, from the newest session to the oldest, repeatedly.
type walk struct {
	api   *client
	made  map[string]struct{} // every session that must be seen; shared, not changed
	query string

	cursor string              // of the page that comes next, "" = the first
	seen   map[string]struct{} // on this way
	oldest string              // creation of the last session seen

	first, further *tally
	whole          int // ways that came to the end
	faults         []string
}

func (w *walk) request(n int) error {
	began := time.Now()
	if n%firstPageEvery == 0 {
		err := w.page("", func(answer []byte) error {
			if _, _, ok := nextSession(answer); !ok {
				return errBadPage
			}
			return nil
		})
		w.first.add(err, time.Since(began))
		return err
	}
	err := w.page(w.cursor, w.read)
	w.further.add(err, time.Since(began))
	return err
}

func (w *walk) page(after string, read func([]byte) error) error {
	path := fmt.Sprintf("/agents/sessions?limit=%d%s", sessionPage, w.query)
	if after != "" {
		path += "&after=" + url.QueryEscape(after)
	}
	return w.api.call("GET", path, nil, 200, read)
}

// read reads the sessions of a page. It searches the text, since decoding would be part of the measured time.
func (w *walk) read(answer []byte) error {
	if w.cursor == "" {
		w.seen, w.oldest = make(map[string]struct{}, len(w.made)), ""
	}
	for rest := answer; ; {
		id, after, ok := nextSession(rest)
		if !ok {
			break
		}
		created := textOf(after, `"created_at":"`)
		if _, again := w.seen[id]; again {
			w.fault("session %s is in the list twice", id)
		}
		if w.oldest != "" && created > w.oldest {
			w.fault("session %s of %s comes after one of %s", id, created, w.oldest)
		}
		if _, own := w.made[id]; own { // others may have been there before
			w.seen[id] = struct{}{}
		}
		w.oldest, rest = created, after
	}
	w.cursor = textOf(answer[max(0, len(answer)-1024):], `"next_cursor":"`)
	if w.cursor == "" {
		if len(w.seen) != len(w.made) {
			w.fault("the list shows %d of %d sessions", len(w.seen), len(w.made))
		}
		w.whole++
	}
	return nil
}

// fault records what is wrong with the list, up to a few faults.
func (w *walk) fault(format string, args ...any) {
	const enough = 5
	if len(w.faults) < enough {
		w.faults = append(w.faults, fmt.Sprintf("list"+w.query+": "+format, args...))
	}
}

// nextSession finds the id of the first session in a text, and what comes after it.
func nextSession(text []byte) (id string, after []byte, ok bool) {
	_, after, ok = bytes.Cut(text, []byte(`{"id":"`))
	if !ok {
		return "", nil, false
	}
	quoted, after, ok := bytes.Cut(after, []byte(`"`))
	return string(quoted), after, ok && len(quoted) > 0
}

// textOf returns the text value behind the first occurrence of a name, "" if there is none.
func textOf(text []byte, name string) string {
	_, after, ok := bytes.Cut(text, []byte(name))
	if !ok {
		return ""
	}
	quoted, _, _ := bytes.Cut(after, []byte(`"`))
	return string(quoted)
}
