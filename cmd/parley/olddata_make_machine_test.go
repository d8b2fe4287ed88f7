package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMakeOldData makes an archive of testdata/olddata with the binary of an earlier release. make.sh calls it.
func TestMakeOldData(t *testing.T) {
	binary, release := os.Getenv("PARLEY_OLD_BINARY"), os.Getenv("PARLEY_OLD_RELEASE")
	if binary == "" {
		t.Skip("makes a test archive: see testdata/olddata/make.sh")
	}
	shop, receiver := oldNeighbours(t)
	p := newProcess(t, oldConfig("50m")+"hitl: {timeout: 876000h}\n")
	p.binary = binary
	p.start()
	m := &oldMaker{floor: newFloor(t, shop, p), receiver: receiver, ids: map[string]string{}}
	m.talk(t)
	m.work(t)
	m.sessions(t)
	m.people(t)
	m.know(t)
	m.open(t)
	p.kill()
	m.pack(t, release)
}

// oldMaker makes what an archive has.
type oldMaker struct {
	*floor

	receiver *receiver
	ids      map[string]string
	known    []oldKnown
	reads    []string // paths of the conversation server that are known
	asks     []string // paths of the Client API that are known
}

// conversation makes one that says something.
func (m *oldMaker) conversation(t *testing.T, name, agent string) string {
	t.Helper()
	id := m.p.newConversation(t, agent, "old")
	m.ids[name] = id
	m.p.say(t, id, "hello from "+name)
	return id
}

// talk makes conversations of every kind.
func (m *oldMaker) talk(t *testing.T) {
	t.Helper()
	p := m.p
	keep := func(id string) {
		at := "/conversations/" + id
		m.reads = append(m.reads, at, at+"/events?limit=1000", at+"/files")
	}
	talked := m.conversation(t, "conversation of several turns", "quick")
	for range 3 {
		p.say(t, talked, "Größe 🙂")
	}
	p.ask(t, "PATCH", "/conversations/"+talked, `{"title":"A title","pinned":true,"metadata":{"a":{"b":[1,2.5,null]}}}`).fits(200, anyObject)
	file := p.upload(t, talked, "plan.txt", "text/plain", []byte("the plan")).text("id")
	p.ask(t, "POST", "/conversations/"+talked+"/messages", object1{"message": "read it", "fileIds": []string{file}}).fits(200, anyObject)
	messages := p.messages(t, talked)
	p.about(t, talked, messages[1].text("id"), "feedback", `{"rating":"up","comment":"good"}`).fits(200, anyObject)
	p.about(t, talked, messages[len(messages)-1].text("id"), "regenerate", nil).fits(200, anyObject)
	keep(talked)
	m.reads = append(m.reads, "/files/"+file)
	keep(m.conversation(t, "broken conversation", "broken"))
	spent := p.newConversation(t, "priced", "old")
	p.ask(t, "PATCH", "/conversations/"+spent, `{"budget":{"maxCostUsd":0.004,"onReach":"stop"}}`).fits(200, anyObject)
	p.say(t, spent, "one")
	p.say(t, spent, "two")
	keep(spent)
	answered := m.conversation(t, "answered conversation", "approving")
	action := p.ask(t, "GET", "/conversations/"+answered, nil).fits(200, anyObject).at("pendingActions").list()[0].text("id")
	p.ask(t, "POST", "/conversations/"+answered+"/actions/"+action, object1{"resolution": allow}).fits(200, anyObject)
	keep(answered)
	for _, agent := range []string{"approving", "asking", "camera"} {
		m.conversation(t, "conversation of "+agent, agent)
	}
	canceled := p.newConversation(t, "late", "old")
	sending := p.asking(t, "POST", "/conversations/"+canceled+"/messages", object1{"message": "go"})
	p.running(t, canceled)
	p.ask(t, "POST", "/conversations/"+canceled+"/cancel", nil).fits(200, anyObject)
	sending()
	keep(canceled)
	m.conversation(t, "conversation", "quick")
	deleted := m.conversation(t, "deleted conversation", "quick")
	p.ask(t, "DELETE", "/conversations/"+deleted, nil).empty(204)
	m.reads = append(m.reads, "/agents/quick", "/agents/approving")
}

// work makes tasks that are over, or wait for a person.
func (m *oldMaker) work(t *testing.T) {
	t.Helper()
	p := m.p
	keep := func(id string) {
		at := "/tasks/" + id
		m.reads = append(m.reads, at, at+"/status", at+"/comments")
	}
	done := p.newTask(t, "quick", "with a file", object1{
		"userId": "old", "metadata": object1{"k": 1}, "files": []any{object1{"name": "plan.txt", "content": "dGhlIHBsYW4=", "mimeType": "text/plain"}},
	}).text("id")
	p.becomes(t, done, "completed")
	p.comment(t, done, "again").fits(201, anyObject)
	p.becomes(t, done, "completed")
	keep(done)
	m.ids["completed task"] = p.newTask(t, "quick", "shortly", nil).text("id")
	p.becomes(t, m.ids["completed task"], "completed")
	failed := p.newTask(t, "broken", "fail", nil).text("id")
	p.becomes(t, failed, "failed")
	keep(failed)
	canceled := p.newTask(t, "asking", "paint it", nil).text("id")
	p.becomes(t, canceled, "waiting_for_input")
	p.ask(t, "POST", "/tasks/"+canceled+"/cancel", nil).fits(200, anyObject)
	p.becomes(t, canceled, "canceled")
	keep(canceled)
	told := p.newTask(t, "quick", "and tell", object1{"callbackUrl": m.receiver.URL + "/told"}).text("id")
	p.becomes(t, told, "completed")
	m.receiver.got(t, "/told", 1)
	keep(told)
	m.ids["waiting task"] = p.newTask(t, "asking", "paint it", nil).text("id")
	p.becomes(t, m.ids["waiting task"], "waiting_for_input")
}

// sessions makes sessions of the Client API, and runs that are over.
func (m *oldMaker) sessions(t *testing.T) {
	t.Helper()
	m.ids["worker"] = m.agents["worker"]
	m.done(t, "PATCH", "/agents/"+m.agents["worker"], object1{"description": "of old"})
	m.done(t, "POST", "/agents/"+m.agents["worker"]+"/publish", nil)
	m.done(t, "PATCH", "/agents/"+m.agents["worker"], object1{"description": "of newer days"})
	m.done(t, "POST", "/agents/"+m.agents["worker"]+"/publish", nil)
	session := func(id string) {
		at := "/agents/sessions/" + id
		m.asks = append(m.asks, at, at+"/messages", at+"/events", at+"/files")
	}
	run := func(name string, made tree) {
		m.ids[name] = made.text("id")
		m.asks = append(m.asks, "/agents/runs/"+made.text("id"))
		session(made.text("session_id"))
	}
	m.ids["session"] = m.session(t, "worker", object1{"metadata": object1{"of": "old"}})
	kept := m.session(t, "worker", object1{"metadata": object1{"of": "old"}})
	m.done(t, "POST", "/agents/sessions/"+kept+"/files?name=a.txt", "text of a file", "Content-Type", "text/plain")
	m.respond(t, "worker", script(calls(use("add", object1{"a": 1, "b": 2}))), object1{"session_id": kept}).fits(200, anyObject)
	session(kept)
	bound := m.respond(t, "bound", "spend", nil).fits(200, anyObject)
	session(bound.text("session_id"))
	asks := m.respond(t, "worker", script(calls(wipe("old-session"))), nil).fits(200, anyObject)
	session(asks.text("session_id"))
	done := m.background(t, "worker", script(part{Text: "done"}), object1{"callback_url": m.receiver.URL + "/done", "callback_secret": callbackSecret})
	m.rests(t, done.text("id"))
	m.receiver.got(t, "/done", 1)
	run("succeeded run", done)
	broken := m.background(t, "broken", "go", nil)
	m.rests(t, broken.text("id"))
	run("failed run", broken)
	canceled := m.background(t, "worker", script(part{Text: "half", Hold: "never"}), nil)
	m.turns(t, canceled.text("id"), "running")
	m.post(t, "/agents/runs/"+canceled.text("id")+"/cancel", nil).fits(200, anyObject)
	m.rests(t, canceled.text("id"))
	require.Eventually(t, func() bool {
		return m.get(t, "/agents/sessions/"+canceled.text("session_id")).fits(200, anyObject).text("runtime_status") == "idle"
	}, waitLong, waitStep)
	run("canceled run", canceled)
	waits := m.background(t, "worker", script(calls(wipe("old-run")), part{Text: "gone"}), nil)
	m.turns(t, waits.text("id"), "requires_action")
	m.ids["waiting run"] = waits.text("id")
}

// background starts a background run.
func (m *oldMaker) background(t *testing.T, agent, input string, more object1) tree {
	t.Helper()
	body := m.order(agent, input, more)
	body["background"] = true
	return m.post(t, "/agents/responses", body).fits(http.StatusAccepted, anyObject)
}

// rests waits until a run is over.
func (m *oldMaker) rests(t *testing.T, run string) {
	t.Helper()
	m.get(t, "/agents/runs/"+run+"/wait?timeout_ms=60000").fits(200, anyObject)
}

// turns waits until a run has a status.
func (m *oldMaker) turns(t *testing.T, run, status string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return m.get(t, "/agents/runs/"+run).fits(200, anyObject).text("status") == status
	}, waitLong, waitStep, status)
}

// people makes users and tokens.
func (m *oldMaker) people(t *testing.T) {
	t.Helper()
	user, as := m.user(t, "admin", nil)
	m.ids["token of a user"] = as.token
	m.asks = append(m.asks, "/users", "/users/"+user+"/tokens", "/users/"+m.owner+"/tokens", "/models", "/models/providers", "/agents")
	for _, key := range m.agents {
		m.asks = append(m.asks, "/agents/"+key, "/agents/"+key+"/versions")
	}
	m.asks = append(m.asks, "/agents/"+m.agents["worker"]+"/versions/1")
}

// know notes what is read.
func (m *oldMaker) know(t *testing.T) {
	t.Helper()
	for _, path := range m.reads {
		m.known = append(m.known, oldKnown{Path: path, Answer: json.RawMessage(m.p.ask(t, "GET", path, nil).status200(t))})
	}
	for _, path := range m.asks {
		m.known = append(m.known, oldKnown{Path: path, Token: m.token, Answer: json.RawMessage(m.get(t, path).status200(t))})
	}
	m.known = append(m.known, oldKnown{
		Path: "/users", Token: houseToken, Answer: json.RawMessage(m.with(houseToken).get(t, "/users").status200(t)),
	})
}

func (a answer) status200(t *testing.T) string {
	t.Helper()
	require.Equalf(t, http.StatusOK, a.status, "%s: %s", a.what, a.text)
	return a.text
}

// open makes what is under way when the process is killed: turns, and callbacks whose first attempts fail.
func (m *oldMaker) open(t *testing.T) {
	t.Helper()
	p := m.p
	refuse := func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusInternalServerError) }
	m.receiver.answers("/run", refuse)
	m.receiver.answers("/task", refuse)
	talking := p.newConversation(t, "late", "old")
	m.ids["running conversation"] = talking
	p.follow(t, "POST", "/conversations/"+talking+"/messages", object1{"message": "go", "stream": true})
	p.running(t, talking)
	for _, name := range []string{"running task", "commented task", "canceled running task"} {
		m.ids[name] = p.newTask(t, "late", "go", nil).text("id")
		p.becomes(t, m.ids[name], "running")
	}
	p.comment(t, m.ids["commented task"], "and this").fits(201, anyObject)
	m.ids["owed task"] = p.newTask(t, "quick", "and tell", object1{"callbackUrl": m.receiver.URL + "/task"}).text("id")
	owed := m.background(t, "quick", "tell", object1{"callback_url": m.receiver.URL + "/run", "callback_secret": callbackSecret})
	m.ids["owed run"] = owed.text("id")
	m.rests(t, owed.text("id"))
	require.Eventually(t, func() bool { return len(m.receiver.posts("/run")) > 0 && len(m.receiver.posts("/task")) > 0 }, waitLong, waitStep)
	m.ids["event of the owed run"] = decode(t, m.receiver.posts("/run")[0].body).text("id")
	for _, name := range []string{"running run", "other running run", "queued run"} {
		m.ids[name] = m.background(t, "worker", script(part{Text: "x", Hold: oldGate}), nil).text("id")
		m.turns(t, m.ids[name], map[bool]string{true: "queued", false: "running"}[name == "queued run"])
	}
	p.ask(t, "POST", "/tasks/"+m.ids["canceled running task"]+"/cancel", nil).fits(200, anyObject)
}

// pack writes the archive, the same for the same files.
func (m *oldMaker) pack(t *testing.T, release string) {
	t.Helper()
	file, err := os.Create(filepath.Join("testdata", "olddata", release+".tar.gz"))
	require.NoError(t, err)
	zipped, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	require.NoError(t, err)
	writer := tar.NewWriter(zipped)
	add := func(name string, text []byte) {
		require.NoError(t, writer.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}))
		_, err = writer.Write(text)
		require.NoError(t, err)
	}
	data, err := json.Marshal(oldData{Release: release, Token: m.token, IDs: m.ids, Known: m.known})
	require.NoError(t, err)
	add("known.json", data)
	var paths []string
	require.NoError(t, filepath.WalkDir(m.p.dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	}))
	slices.Sort(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(filepath.Dir(m.p.dir), path)
		require.NoError(t, err)
		add(filepath.ToSlash(name), text)
	}
	require.NoError(t, writer.Close())
	require.NoError(t, zipped.Close())
	require.NoError(t, file.Close())
}
