package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Sizes of files that are on their way when a node dies: an upload of several pieces, and a download that no buffers on its way hold.
const (
	wayUpload   = 1_000_000
	wayDownload = 24 << 20
)

// onTheWay is three nodes of which one dies, and what is stored in a tenant that may keep so many files and bytes as the test stores.
type onTheWay struct {
	*cluster

	t      *testing.T
	victim string
	dies   apiCaller   // at the victim
	lives  []apiCaller // at the others
	speech string      // a recording
}

const wayFiles = 3 // a large one, and two uploads

func newOnTheWay(t *testing.T) (w *onTheWay, agent string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "files.yaml")
	require.NoError(t, os.WriteFile(file, []byte(floorConfig+`provider_encryption_secret: of-all-three-nodes-0123456789
accounts: {session_secret: of-all-three-nodes-0123456789abcdef}
agents: [{id: keeper, model: {provider: scripted}, capabilities: {attachments: {enabled: true, max_file_size: 64MiB}}}]
`), 0o600))
	w = &onTheWay{t: t, cluster: newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s")} // a busy machine is no failure
	require.NoError(t, w.Start(t.Context()))
	require.NoError(t, w.awaitSettled(t.Context(), 3))
	nodes := w.Nodes()
	first := as(t, nodes[0])
	owner, email, _ := company(t, first)
	in := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	operate(t, first, "PATCH", "/tenants/"+in.text("tenant", "id"), object1{"tier": "ON_PREMISE"})
	token := operate(t, first, "POST", "/tokens", object1{"userId": in.text("user", "id"), "label": "files"}).text("token")
	owner.done(t, "POST", "/quota/policies", object1{"domain": "file", "limits": object1{"quotas": object1{
		"maxFilesTotal": wayFiles, "maxStorageBytes": wayDownload + (wayFiles-1)*wayUpload,
	}}})
	w.victim = nodes[2].Name
	w.dies = apiCaller{as(t, nodes[2]), token}
	for _, node := range nodes[:2] {
		w.lives = append(w.lives, apiCaller{as(t, node), token})
	}
	at := w.lives[0]
	at.done(t, "POST", "/models/providers", object1{"key": "scripted", "driver": "scripted"})
	at.done(t, "POST", "/models", scriptedModel("scripted"))
	speech, _ := soundModels(t, at)
	w.speech = at.ask(t, "POST", "/audio/speech", object1{"model": speech, "input": strings.Repeat("Hello from Parley. ", 20), "response_format": "wav"}).text
	agent = at.done(t, "POST", "/agents", object1{
		"name": "Keeper", "config": object1{"modelKey": "scripted"}, "metadata": object1{"files": object1{"enabled": true, "maxFiles": 10, "maxFileSize": 64 << 20}},
	}).text("agent", "key")
	for _, door := range append(slices.Clone(w.lives), w.dies) {
		require.Eventually(t, func() bool { return door.ask(t, "GET", "/agents/"+agent, nil).status == 200 }, waitLong, 20*time.Millisecond)
	}
	return w, agent
}

// sessionOf makes a session that the victim owns, or another node.
func (w *onTheWay) sessionOf(agent string, victims bool) string {
	w.t.Helper()
	at := w.lives[0]
	for range 200 {
		id := at.done(w.t, "POST", "/agents/sessions", object1{"agent": agent}).text("id")
		if (at.get(w.t, "/agents/sessions/"+id).header.Get("X-Served-By") == w.victim) == victims {
			return id
		}
	}
	require.Fail(w.t, "no such owner")
	return ""
}

func (w *onTheWay) conversationOf(victims bool) string {
	w.t.Helper()
	for range 200 {
		id := w.lives[0].p.newConversation(w.t, "keeper", "way")
		owner, err := w.owner(w.t.Context(), id)
		require.NoError(w.t, err)
		if (owner.Name == w.victim) == victims {
			return id
		}
	}
	require.Fail(w.t, "no such owner")
	return ""
}

// wayOf is one way of bringing a file, and where it is listed then.
type wayOf struct {
	name    string
	path    string // of the upload, as newRequest takes it
	listed  string
	through apiCaller
	headers []string
	body    string
}

// begin sends the first half.
func (w *onTheWay) begin(of *wayOf) *slowUpload {
	u := beginPost(w.t, of.through.p.newRequest(w.t, "POST", of.path, nil, of.headers))
	u.send([]byte(of.body[:len(of.body)/2]))
	return u
}

// get reads a path through a node.
func (w *onTheWay) get(door apiCaller, path string) answer {
	w.t.Helper()
	if strings.HasPrefix(path, "http") {
		return door.p.ask(w.t, "GET", strings.Replace(path, w.lives[0].p.listen, door.p.listen, 1), nil, "Authorization", "Bearer "+door.token)
	}
	return door.p.ask(w.t, "GET", path, nil)
}

// stored are the ids that a list has, through a node.
func (w *onTheWay) stored(door apiCaller, list string) (ids []string) {
	w.t.Helper()
	var listed tree
	require.Eventually(w.t, func() bool {
		a := w.get(door, list)
		if a.status == 200 {
			listed = decode(w.t, a.text)
		}
		return a.status == 200
	}, waitLong, waitStep, list)
	rows := listed.at("files")
	if rows.v == nil {
		rows = listed.at("data")
	}
	return texts(rows.list(), "id")
}

// TestKillsOnTheWay: a node is killed while files come and go through it and to it. Who uploads is told, nothing half is listed, kept or
// counted, the same upload through another node works, and no download ends well that is short.
func TestKillsOnTheWay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts and kills real processes")
	}
	w, agent := newOnTheWay(t)
	at := w.lives[0]
	session, owned := w.sessionOf(agent, false), w.sessionOf(agent, true)
	talk, ownedTalk := w.conversationOf(false), w.conversationOf(true)
	bearer := []string{"Authorization", "Bearer " + at.token}
	files := func(session string) string { return at.url("/agents/sessions/" + session + "/files") }

	// What is downloaded meanwhile: of the session through the node that dies, of the conversation from a node that asks it.
	large := string(randomBytes(wayDownload))
	kept := at.post(t, "/agents/sessions/"+session+"/files?name=large.bin", large, "Content-Type", "application/octet-stream").fits(201, anyObject).text("id")
	loose := at.p.upload(t, ownedTalk, "large.bin", "application/octet-stream", []byte(large)).text("id")
	cut := beginDownload(t, w.dies.p.newRequest(t, "GET", w.dies.url("/agents/sessions/"+session+"/files/"+kept+"/content"), nil, bearer))
	carried := beginDownload(t, w.lives[1].p.newRequest(t, "GET", "/files/"+loose+"/content", nil, nil))

	data := string(randomBytes(wayUpload))
	raw := append([]string{"Content-Type", "application/octet-stream"}, bearer...)
	form, sound := soundForm(t, []byte(w.speech), "model", "scripted-stt")
	ways := []*wayOf{
		{name: "session, through it", path: w.dies.url("/agents/sessions/" + session + "/files?name=a.bin"), listed: files(session), through: w.dies, headers: raw, body: data},
		{name: "session, to it", path: w.lives[1].url("/agents/sessions/" + owned + "/files?name=b.bin"), listed: files(owned), through: w.lives[1], headers: raw, body: data},
		{name: "conversation, through it", path: w.dies.p.url("/files?name=c.bin&conversationId=" + talk), listed: "/conversations/" + talk + "/files", through: w.dies, headers: raw[:2], body: data},
		{name: "conversation, to it", path: w.lives[1].p.url("/files?name=d.bin&conversationId=" + ownedTalk), listed: "/conversations/" + ownedTalk + "/files", through: w.lives[1], headers: raw[:2], body: data},
		{name: "recording, through it", path: w.dies.url("/audio/transcriptions"), through: w.dies, headers: append([]string{"Content-Type", form}, bearer...), body: sound},
	}
	before := map[string][]string{}
	var begun []*slowUpload
	for _, way := range ways {
		if way.listed != "" {
			before[way.name] = w.stored(at, way.listed)
		}
		begun = append(begun, w.begin(way))
	}
	require.NoError(t, w.Node(w.victim).Kill())

	for i, way := range ways {
		begun[i].send([]byte(way.body[len(way.body)/2:]))
		_ = begun[i].body.Close() // the end of the file
		a := <-begun[i].came
		t.Logf("%s: %d %.80s", way.name, a.status, a.text)
		if way.through == w.dies {
			require.Zero(t, a.status, "%s: who died cannot answer", way.name)
		}
		if a.status != 201 {
			if way.listed != "" {
				for _, door := range w.lives {
					require.Equal(t, before[way.name], w.stored(door, way.listed), way.name)
				}
			}
			w.again(way, before[way.name])
			continue
		}
		w.whole(way, decode(t, a.text), before[way.name])
	}
	w.full(session)

	got, err := cut.rest()
	require.Error(t, err, "%d of %d bytes, and all is well?", len(got), len(large))
	require.True(t, strings.HasPrefix(large, got))
	if got, err = carried.rest(); err == nil && got != large {
		require.Fail(t, "a short download ended well", "%d of %d bytes", len(got), len(large))
	}

	// The one that died knows the same when it is back.
	require.NoError(t, w.Node(w.victim).Start(t.Context()))
	for _, way := range ways[:4] {
		require.Eventually(t, func() bool { return slices.Equal(w.stored(at, way.listed), w.stored(w.dies, way.listed)) }, waitLong, waitStep, way.name)
	}
}

// again repeats an upload through another node until it works: what the dead one held of the quota is free within its lease.
func (w *onTheWay) again(way *wayOf, before []string) {
	w.t.Helper()
	to := w.lives[0]
	path := strings.Replace(way.path, way.through.p.listen, to.p.listen, 1)
	var a answer
	require.Eventually(w.t, func() bool {
		a = to.p.ask(w.t, "POST", path, way.body, way.headers...)
		return a.status == 201 || a.status == 200
	}, 2*time.Minute, 100*time.Millisecond, way.name)
	if way.listed != "" {
		w.whole(way, decode(w.t, a.text), before)
		return
	}
	require.Contains(w.t, a.text, "Hello from Parley.")
}

// whole: a file that was acknowledged is there through every node, byte for byte, once.
func (w *onTheWay) whole(way *wayOf, made tree, before []string) {
	w.t.Helper()
	if inner := made.at("file"); inner.v != nil {
		made = inner
	}
	id := made.text("id")
	for _, door := range w.lives {
		listed := w.stored(door, way.listed)
		require.ElementsMatch(w.t, append(slices.Clone(before), id), listed, way.name)
		content := way.listed + "/" + id + "/content"
		if strings.HasPrefix(way.listed, "/conversations/") {
			content = "/files/" + id + "/content"
		}
		require.Eventually(w.t, func() bool {
			a := w.get(door, content)
			return a.status == 200 && a.text == way.body
		}, waitLong, 20*time.Millisecond, way.name)
	}
}

// full: the tenant keeps what it may, and not a byte of what was lost.
func (w *onTheWay) full(session string) {
	w.t.Helper()
	for _, door := range w.lives {
		require.Eventually(w.t, func() bool {
			a := door.ask(w.t, "POST", "/agents/sessions/"+session+"/files?name=more.txt", "x", "Content-Type", "text/plain")
			return a.status == 429 && strings.Contains(a.text, fmt.Sprintf("files limit reached (%d/%d)", wayFiles, wayFiles))
		}, waitLong, 100*time.Millisecond)
	}
}

// download is a file that is read slowly.
type download struct {
	t    *testing.T
	head []byte
	body io.ReadCloser
}

// beginDownload reads the beginning of a file, over a connection that buffers little.
func beginDownload(t *testing.T, request *http.Request) *download {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if tcp, is := c.(*net.TCPConn); is {
			err = errors.Join(err, tcp.SetReadBuffer(64<<10))
		}
		return c, err
	}}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport, Timeout: 5 * time.Minute}).Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() }) // it may be cut
	require.Equal(t, 200, response.StatusCode)
	d := &download{t: t, head: make([]byte, 64<<10), body: response.Body}
	_, err = io.ReadFull(d.body, d.head)
	require.NoError(t, err)
	return d
}

// rest is the whole as far as it came.
func (d *download) rest() (string, error) {
	rest, err := io.ReadAll(d.body)
	return string(d.head) + string(rest), err
}
