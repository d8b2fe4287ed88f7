package inference

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"math"
	"net/url"
	"strconv"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// maxInputs bounds the texts of one request.
const maxInputs = 2048

// Embed makes embeddings and returns their JSON (document 3, 10.7). The error is as Chat's.
func (c *Caller) Embed(ctx context.Context, call *Call) ([]byte, error) {
	return c.unstreamed(ctx, call, &manner{ServiceEmbeddings, provider.Embedding, []string{"embedding"}, c.embed})
}

func (c *Caller) embed(ctx context.Context, call *Call, t *target, used *consumed) ([]byte, error) {
	packed := call.Body.Text("encoding_format") == "base64"
	if t.model.GetProvider() == agentpb.Provider_SCRIPTED {
		return c.standInEmbeddings(call, used, packed)
	}
	if t.model.GetProvider() == agentpb.Provider_ANTHROPIC {
		return nil, invalid("model", "the provider of this model makes no embeddings")
	}
	address, err := model.OpenAIURL(t.model, "/embeddings")
	if err != nil {
		return nil, badAddress(err)
	}
	body := listed(t, call, embedFields).finish(call)
	var data []byte
	err = c.attempts(ctx, t, provider.Embedding, func(ctx context.Context) error {
		fields, failed := c.fetchObject(ctx, t, address, body)
		if failed != nil {
			return failed
		}
		*used = readUsage(fields.Get("usage")) // without it the size is looked at
		data, failed = vectors(fields.Get("data"), packed)
		return failed
	})
	if err != nil {
		return nil, err
	}
	used.guess(call, 0)
	return embeddings(call, data, used), nil
}

// fetchObject posts a request once and splits its answer.
func (c *Caller) fetchObject(ctx context.Context, t *target, address *url.URL, body []byte) (rawjson.Fields, error) {
	answer, err := c.fetch(ctx, t, address, body)
	if err != nil {
		return nil, err
	}
	return t.readAnswer(answer)
}

// readAnswer splits a provider's answer, which may be an error in spite of its status.
func (t *target) readAnswer(answer []byte) (rawjson.Fields, error) {
	if !json.Valid(answer) {
		return nil, unreadable()
	}
	fields, err := rawjson.Object(answer)
	if err != nil {
		return nil, unreadable()
	}
	if fields.Get("error") != nil {
		return nil, provider.Complaint(0, answer, provider.RedactorOf(t.model))
	}
	return fields, nil
}

// embeddings renders the answer around its data.
func embeddings(call *Call, data []byte, used *consumed) []byte {
	dst := make([]byte, 0, len(data)+256)
	dst = append(dst, `{"object":"list","model":`...)
	dst = rawjson.AppendString(dst, call.Model)
	dst = append(append(dst, `,"data":`...), data...)
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, used.Input, 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, max(used.Total, used.Input), 10)
	dst = append(dst, `},"request_id":`...)
	dst = rawjson.AppendString(dst, call.RequestID)
	return append(dst, '}')
}

// vectors renders the data of an answer, each vector in the form that was asked for: clients decode what they asked for, and not
// every provider knows both forms.
func vectors(raw []byte, packed bool) ([]byte, error) {
	items, err := rawjson.Array(raw, maxInputs)
	if err != nil {
		return nil, unreadable()
	}
	dst := append(make([]byte, 0, len(raw)+64), '[')
	for i, item := range items {
		fields, err := rawjson.Object(item)
		vector := fields.Get("embedding")
		if err != nil || vector == nil {
			return nil, unreadable()
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		index := i
		if given := fields.Get("index"); given != nil {
			index = int(number(given))
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(index), 10)
		dst = append(dst, `,"embedding":`...)
		if dst, err = appendVector(dst, vector, packed); err != nil {
			return nil, err
		}
		dst = append(dst, '}')
	}
	return append(dst, ']'), nil
}

func appendVector(dst, raw []byte, packed bool) ([]byte, error) {
	switch isPacked := raw[0] == '"'; {
	case isPacked == packed:
		return append(dst, raw...), nil
	case packed:
		var vector []float32
		if json.Unmarshal(raw, &vector) != nil {
			return nil, unreadable()
		}
		return appendPacked(dst, vector), nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, unreadable()
	}
	bits, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(bits)%4 != 0 {
		return nil, unreadable()
	}
	vector := make([]float32, len(bits)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(bits[4*i:]))
	}
	return appendNumbers(dst, vector)
}

func appendPacked(dst []byte, vector []float32) []byte {
	bits := make([]byte, 0, 4*len(vector))
	for _, value := range vector {
		bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(value))
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, bits)
	return append(dst, '"')
}

func appendNumbers(dst []byte, vector []float32) ([]byte, error) {
	encoded, err := json.Marshal(vector)
	if err != nil { // not a number, or without end
		return nil, unreadable()
	}
	return append(dst, encoded...), nil
}

// Stand-in embeddings have so many numbers, unless the request asks for another count.
const (
	standInDimensions    = 64
	maxStandInDimensions = 4096
)

// standInEmbeddings are those of the scripted provider, which understands nothing: each word adds to some of the numbers by its
// hash, so that texts which share words are near each other. They let a fresh server be tried without a provider.
func (c *Caller) standInEmbeddings(call *Call, used *consumed, packed bool) ([]byte, error) {
	var texts []string
	if raw := call.Body.Get("input"); json.Unmarshal(raw, &texts) != nil {
		texts = []string{call.Body.Text("input")}
	}
	if len(texts) > maxInputs {
		return nil, invalid("input", "`input` has more than "+strconv.Itoa(maxInputs)+" texts")
	}
	size := standInDimensions
	if asked := number(call.Body.Get("dimensions")); asked > 0 {
		size = int(min(asked, maxStandInDimensions))
	}
	dst := []byte{'['}
	for i, text := range texts {
		words := strings.Fields(strings.ToLower(text))
		used.Input += int64(len(words))
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		vector := standInVector(words, size)
		if packed {
			dst = appendPacked(dst, vector)
		} else {
			dst, _ = appendNumbers(dst, vector) // they are finite
		}
		dst = append(dst, '}')
	}
	used.Total, used.Known = used.Input, true
	return embeddings(call, append(dst, ']'), used), nil
}

// standInVector has length 1.
func standInVector(words []string, size int) []float32 {
	sums := make([]float64, size)
	for _, word := range words {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(word)) // a hash takes everything
		sum := hash.Sum64()
		for range 4 {
			sign := float64(sum>>63)*2 - 1
			sums[int(sum%uint64(size))] += sign
			sum = sum*6364136223846793005 + 1442695040888963407
		}
	}
	var norm float64
	for _, value := range sums {
		norm += value * value
	}
	vector := make([]float32, size)
	if norm == 0 {
		vector[0] = 1
		return vector
	}
	for i, value := range sums {
		vector[i] = float32(value / math.Sqrt(norm))
	}
	return vector
}
