package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// jobs is background work beside a crowd's turns: tasks of the conversation server and background runs of the Client API.
// Each job has a callback, is made once although its request may be repeated, and must end well.
type jobs struct {
	kinds    []jobKind
	server   *http.Server // takes the callbacks
	callback string       // base URL of server
	running  sync.WaitGroup

	mu struct {
		sync.Mutex
		ended    []job
		errors   map[string]int64
		received map[string]int // callbacks by the key of their job
		unknown  map[string]int // what was refused for good, because it may be made, by kind
	}
}

// job is one that was seen to end well.
type job struct {
	kind    *jobKind
	key, id string
}

// jobKind says how jobs of a sort are made and read.
type jobKind struct {
	name    string
	caller  nodeClient
	create  string // path of POST
	made    int    // status of a success
	body    func(agent, callback string) map[string]any
	read    string // path of GET, with %s for the id
	success string // the status of a job that ended well
}

const (
	jobWorkers = 3 // of each kind
	jobPoll    = 50 * time.Millisecond
	jobEnds    = time.Minute // a job takes no longer, also where all disks stand still for some seconds
)

// startJobs starts the workers; they end with ctx, each after its present job.
func startJobs(ctx context.Context, o *Options, server, api *client) (*jobs, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for callbacks: %w", err)
	}
	j := &jobs{callback: "http://" + listener.Addr().String() + "/"}
	j.mu.errors, j.mu.received, j.mu.unknown = map[string]int64{}, map[string]int{}, map[string]int{}
	j.server = &http.Server{Handler: j, ReadHeaderTimeout: time.Minute}
	go func() { _ = j.server.Serve(listener) }() // ends with close
	j.kinds = []jobKind{{
		name: "task", caller: nodeClient{server}, create: "/tasks", made: http.StatusCreated, read: "/tasks/%s/status", success: "completed",
		body: func(agent, callback string) map[string]any {
			return map[string]any{"agentId": agent, "input": "work", "callbackUrl": callback}
		},
	}, {
		name: "run", caller: nodeClient{api}, create: "/agents/responses", made: http.StatusAccepted, read: "/agents/runs/%s", success: "succeeded",
		body: func(agent, callback string) map[string]any {
			return map[string]any{"model": agent, "input": "work", "background": true, "callback_url": callback}
		},
	}}
	for i := range j.kinds {
		for worker := range jobWorkers {
			j.running.Go(func() {
				for n := 0; sleepUntil(ctx, time.Now().Add(jobPoll)); n++ {
					kind := &j.kinds[i]
					made, err := kind.work(o.Agent, j.callback, fmt.Sprintf("%s-%d-%d", kind.name, worker, n))
					j.note(kind, made, err)
				}
			})
		}
	}
	return j, nil
}

// ServeHTTP takes a callback.
func (j *jobs) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.received[strings.TrimPrefix(r.URL.Path, "/")]++
}

func (j *jobs) note(kind *jobKind, made job, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if failed := (*callError)(nil); errors.As(err, &failed) && failed.Code == codeKeyTaken {
		// A node of a release in which a task was made once at most was stopped while it made one: it may be made, and nobody finds it by its key.
		j.mu.unknown[kind.name]++
		return
	}
	if err != nil {
		j.mu.errors[kind.name+": "+err.Error()]++
		return
	}
	j.mu.ended = append(j.mu.ended, made)
}

// work makes a job and follows it to its end. What a node cannot answer is asked of the next.
func (k *jobKind) work(agent, callback, key string) (job, error) {
	body, err := json.Marshal(k.body(agent, callback+key))
	if err != nil {
		return job{}, err
	}
	var made struct {
		ID   string              `json:"id"`
		Task struct{ ID string } `json:"task"`
	}
	_, err = k.caller.any(rand.IntN(len(k.caller.hosts)), &request{
		method: "POST", path: k.create, body: body, key: key, want: k.made,
		read: func(text []byte) error { return json.Unmarshal(text, &made) },
	})
	if err != nil {
		return job{}, err
	}
	id := cmp.Or(made.ID, made.Task.ID)
	deadline := time.Now().Add(jobEnds)
	for {
		status, err := k.status(rand.IntN(len(k.caller.hosts)), id)
		switch {
		case err != nil:
			return job{}, err
		case status == k.success:
			return job{k, key, id}, nil
		case !slices.Contains([]string{"pending", "queued", "running"}, status), time.Now().After(deadline):
			return job{}, &callError{Status: http.StatusOK, Code: "ended: " + status}
		}
		time.Sleep(jobPoll)
	}
}

func (k *jobKind) status(host int, id string) (string, error) {
	var found struct{ Status string }
	_, err := k.caller.any(host, &request{
		method: "GET", path: fmt.Sprintf(k.read, id), want: http.StatusOK,
		read: func(text []byte) error { return json.Unmarshal(text, &found) },
	})
	return found.Status, err
}

// audit checks that every node shows every job as it ended, and that each had its callback. The workers must have ended.
func (j *jobs) audit(ctx context.Context, report *Report) {
	ended := map[string]int{}
	for _, made := range j.mu.ended {
		ended[made.kind.name]++
		for host := range made.kind.caller.hosts {
			if status, err := made.kind.status(host, made.id); err != nil || status != made.kind.success {
				report.Faults = append(report.Faults, fmt.Sprintf("%s is %q at node %d: %v", made.id, status, host+1, err))
			}
		}
	}
	deadline := time.Now().Add(catchUp)
	for _, made := range j.mu.ended {
		for !j.called(made.key) {
			if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(jobPoll)) {
				report.Faults = append(report.Faults, fmt.Sprintf("%s (%s): no callback", made.id, made.key))
				break
			}
		}
	}
	for i := range j.kinds {
		name := j.kinds[i].name
		report.Numbers[name+"s ended"] = float64(ended[name])
		if unknown := j.mu.unknown[name]; unknown > 0 {
			report.Numbers[name+"s of unknown outcome"] = float64(unknown)
		}
		if ended[name] == 0 {
			report.Faults = append(report.Faults, "not one "+name+" ended")
		}
	}
	for what, n := range j.mu.errors {
		report.Errors[what] += n
	}
}

func (j *jobs) called(key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.received[key] > 0
}

func (j *jobs) close() { _ = j.server.Close() } // nobody is waited for
