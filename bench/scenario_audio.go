package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// mostUploadMemory is how much memory above idle a server may take for a recording, in MB.
const mostUploadMemory = 20

// listeningModel is a model server that hears nothing in a recording but its checksum.
type listeningModel struct {
	url    string
	server *http.Server
	busy   sync.WaitGroup
}

func startListeningModel(ctx context.Context) (*listeningModel, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	m := &listeningModel{url: "http://" + listener.Addr().String() + "/v1"}
	m.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard, err := hear(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"text":%q}`, heard)
	})}
	m.busy.Go(func() {
		_ = m.server.Serve(listener) // ends with close, which says no more than that
	})
	return m, nil
}

func (m *listeningModel) close() {
	_ = m.server.Close() // its error does not matter
	m.busy.Wait()
}

// hear returns the checksum of the file of a form, and reads the form to its end.
func hear(r *http.Request) (string, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err == nil && part.FormName() == "file" {
			_, err = io.CopyBuffer(sum, struct{ io.Reader }{part}, make([]byte, 256<<10))
		}
		if err != nil {
			return "", err
		}
	}
}

// runAudio has a recording of -state-bytes transcribed, -count times as a form and as base64, and watches the memory of all nodes
// meanwhile: above what they had before the first recording, and, once a round has warmed up, above what they had before each.
func runAudio(ctx context.Context, o *Options, live *progress) (*Report, error) {
	if o.cluster == nil {
		return nil, errOwnNodes
	}
	model, err := startListeningModel(ctx)
	if err != nil {
		return nil, err
	}
	defer model.close()
	c, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	key, err := recordModel(c, model.url, "stt", map[string]any{})
	if err != nil {
		return nil, err
	}
	ways := []*recordingWay{{name: "form", send: asForm}, {name: "base64", send: asBase64}}
	live.phase("settling")
	sleepUntil(ctx, time.Now().Add(o.Settle)) // memory that only the start took is given back
	t, began, all := newTally(), time.Now(), &memoryWatch{cluster: o.cluster, outside: true}
	err = all.during(ctx, true, func() error {
		for _, way := range ways {
			if failed := way.rounds(ctx, o, live, key, t); failed != nil {
				return fmt.Errorf("%s: %w", way.name, failed)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	report := newReport(o, t, time.Since(began))
	report.Numbers["recording, MB"] = float64(o.StateBytes) / 1e6
	report.Numbers["idle before the first recording, MB"] = all.idle / 1e6
	report.Numbers[fmt.Sprintf("most resident memory above idle before the first recording, MB (target %d)", mostUploadMemory)] = all.rss / 1e6
	for _, way := range ways {
		report.Numbers[way.name+", MB/s"] = float64(o.StateBytes) * float64(max(o.Count, 1)) / 1e6 / way.took.Seconds()
		way.memory.report(report, way.name)
	}
	return report, ctx.Err()
}

// recordingWay is one of the ways in which a recording can be sent.
type recordingWay struct {
	name   string
	send   func(recording io.Reader, key string) (body io.ReadCloser, contentType string)
	memory *memoryWatch
	took   time.Duration
}

// rounds sends the recording once to warm up, and then as often as it is to be measured.
func (w *recordingWay) rounds(ctx context.Context, o *Options, live *progress, key string, t *tally) error {
	rounds := max(o.Count, 1)
	w.memory = &memoryWatch{cluster: o.cluster, outside: true}
	for round := range rounds + 1 {
		live.phase(fmt.Sprintf("%s, round %d of %d", w.name, round, rounds))
		var took time.Duration
		err := w.memory.during(ctx, round > 0, func() (err error) { took, err = w.round(ctx, o, key, round); return err })
		if err != nil {
			return err
		}
		if round > 0 {
			w.took += took
			t.add(nil, took)
		}
	}
	return nil
}

// round sends bytes that do not compress, and checks that the model heard them all.
func (w *recordingWay) round(ctx context.Context, o *Options, key string, round int) (time.Duration, error) {
	sum := sha256.New()
	var seed [32]byte
	seed[0] = byte(round)
	recording := io.TeeReader(io.LimitReader(rand.NewChaCha8(seed), o.StateBytes), sum)
	body, contentType := w.send(bufio.NewReaderSize(recording, 256<<10), key)
	defer func() { _ = body.Close() }() // nobody reads it any more
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URLs[round%len(o.URLs)]+o.ClientPath+"/audio/transcriptions", body)
	if err != nil {
		return 0, fmt.Errorf("recording: %w", err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "Bearer "+o.Token)
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("recording: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	took := time.Since(began)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, fmt.Errorf("transcription: %w", err)
	}
	var heard struct {
		Text string `json:"text"`
	}
	if err = json.Unmarshal(answer, &heard); err != nil || response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("transcription: %d %.1000s", response.StatusCode, answer)
	}
	if want := hex.EncodeToString(sum.Sum(nil)); heard.Text != want {
		return 0, fmt.Errorf("the model heard %s, not %s", heard.Text, want)
	}
	return took, nil
}

// asForm is a form with the recording before its fields.
func asForm(recording io.Reader, key string) (io.ReadCloser, string) {
	const boundary = "of-the-bench"
	head := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.mp3\"\r\nContent-Type: audio/mpeg\r\n\r\n"
	tail := "\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + key + "\r\n--" + boundary + "--\r\n"
	return io.NopCloser(io.MultiReader(bytes.NewBufferString(head), recording, bytes.NewBufferString(tail))), "multipart/form-data; boundary=" + boundary
}

// asBase64 is a JSON object with the recording in it. Closing it ends the goroutine that encodes.
func asBase64(recording io.Reader, key string) (io.ReadCloser, string) {
	from, into := io.Pipe()
	go func() {
		text := bufio.NewWriterSize(into, 256<<10)
		_, err := text.WriteString(`{"audio":{"data":"`)
		encoder := base64.NewEncoder(base64.StdEncoding, text)
		if err == nil {
			_, err = io.Copy(encoder, recording)
		}
		if err = errors.Join(err, encoder.Close()); err == nil {
			_, err = fmt.Fprintf(text, `","fileName":"speech.mp3"},"model":%q}`, key)
		}
		into.CloseWithError(errors.Join(err, text.Flush()))
	}()
	return from, "application/json"
}
