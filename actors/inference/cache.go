package inference

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/machine/rawjson"
)

// cache keeps what models said, to be said again to the same request. It is bounded by bytes in all and by a number for each model; who
// was not asked for the longest makes room.
type cache struct {
	most int64 // bytes, 0 = nothing is kept

	mu      sync.Mutex
	bytes   int64
	known   map[keptKey]*kept
	used    list.List             // *kept, the last used first
	ofModel map[string]*list.List // the same of each model, by the id of its record

	hits, misses prometheus.Counter
}

// keptKey is a hash of all that an answer follows from.
type keptKey [sha256.Size]byte

// kept is an answer that is kept. It is not changed.
type kept struct {
	key     keptKey
	model   string
	said    []byte // as completion.append renders it
	expires time.Time

	inUsed, inModel *list.Element
}

const (
	// keptOverhead is rather more than what an answer takes beside its bytes: its entries in maps and lists.
	keptOverhead = 512
	// keptShare bounds one answer: so many of the largest have room.
	keptShare = 8
)

func (k *kept) size() int64 { return int64(cap(k.said)) + keptOverhead }

func newCache(most int64, registerer prometheus.Registerer) *cache {
	c := &cache{
		most: most, known: map[keptKey]*kept{}, ofModel: map[string]*list.List{},
		hits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_cache_hits_total", Help: "Chat completions that were answered with an answer that was kept.",
		}),
		misses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_gateway_cache_misses_total", Help: "Chat completions of models that keep answers for which there was none.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(c.hits, c.misses, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_gateway_cache_bytes", Help: "Memory that kept answers take.",
		}, func() float64 { return float64(c.size()) }))
	}
	return c
}

func (c *cache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// get finds an answer that holds at a time, nil = there is none.
func (c *cache) get(key keptKey, now time.Time) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.known[key]
	if found != nil && !now.Before(found.expires) {
		c.drop(found)
		found = nil
	}
	if found == nil {
		c.misses.Inc()
		return nil
	}
	c.hits.Inc()
	c.used.MoveToFront(found.inUsed)
	c.ofModel[found.model].MoveToFront(found.inModel)
	return found.said
}

// put keeps an answer, in the place of an older one. Of its model most are kept at most. One that is too large is not.
func (c *cache) put(one *kept, most int64) {
	if one.size() > c.most/keptShare {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if older := c.known[one.key]; older != nil {
		c.drop(older)
	}
	of := c.ofModel[one.model]
	if of == nil {
		of = list.New()
		c.ofModel[one.model] = of
	}
	c.known[one.key] = one
	one.inUsed, one.inModel = c.used.PushFront(one), of.PushFront(one)
	c.bytes += one.size()
	for int64(of.Len()) > most {
		c.drop(last(of))
	}
	for c.bytes > c.most {
		c.drop(last(&c.used))
	}
}

func last(of *list.List) *kept {
	one, _ := of.Back().Value.(*kept) // nothing else is in these lists
	return one
}

// drop forgets an answer. c.mu is held.
func (c *cache) drop(one *kept) {
	delete(c.known, one.key)
	c.used.Remove(one.inUsed)
	of := c.ofModel[one.model]
	if of.Remove(one.inModel); of.Len() == 0 {
		delete(c.ofModel, one.model)
	}
	c.bytes -= one.size()
}

// recall finds what was answered to the same request before; nil = nothing is kept, or the caller wants another. What it will be answered
// is kept then, if its model keeps answers and the caller lets it be.
func (c *Caller) recall(call *Call, t *target) []byte {
	if call.Cache == nil || t.service != ServiceChat || !t.record.GetCache().GetEnabled() || c.cache.most == 0 {
		return nil
	}
	key, err := t.keyOf(call)
	if err != nil {
		return nil // unreachable: records encode. The provider is asked
	}
	t.keeps = &key
	if call.Cache.Fresh {
		return nil
	}
	return c.cache.get(key, time.Now())
}

// keep keeps what a model said. What a budget has cut is not what another caller would be answered.
func (c *Caller) keep(t *target, said *completion, rendered []byte) {
	if t.keeps == nil || t.paid.output > 0 && said.short() {
		return
	}
	keeping := t.record.GetCache()
	c.cache.put(&kept{
		key: *t.keeps, model: t.record.GetId(), said: bytes.Clone(rendered),
		expires: time.Now().Add(time.Duration(keeping.GetTtlSeconds()) * time.Second),
	}, keeping.GetMost())
}

// aside are the parameters that an answer does not depend on.
//
//nolint:gochecknoglobals // a constant table
var aside = []string{
	"metadata", "model", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "request_id", "safety_identifier", "stream",
	"stream_options", "user",
}

// keyOf is the key of a request's answer: whose it is, the model's record and how it is called, to the letter, so that a change of either
// makes older answers unreachable, and the request, whose members may come in any order and with any space between them. The order of
// members within a value counts: models see it.
func (t *target) keyOf(call *Call) (key keptKey, err error) {
	sum := sha256.New()
	for _, record := range [...]proto.Message{t.record, t.model} {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(record)
		if err != nil {
			return key, err
		}
		addPart(sum, encoded)
	}
	addPart(sum, []byte(call.TenantID))
	addPart(sum, []byte(call.ProjectID))
	fields := slices.Clone(call.Body)
	slices.SortFunc(fields, func(x, y rawjson.Field) int { return strings.Compare(x.Name, y.Name) })
	for _, field := range fields {
		if rawjson.IsNull(field.Value) || slices.Contains(aside, field.Name) {
			continue
		}
		addPart(sum, []byte(field.Name))
		_ = rawjson.WriteCompact(sum, field.Value) // a hash takes everything
		_, _ = sum.Write([]byte{0})                // which is in no JSON
	}
	sum.Sum(key[:0])
	return key, nil
}

// addPart adds a part and its length.
func addPart(sum hash.Hash, part []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(part)))
	_, _ = sum.Write(size[:]) // a hash takes everything
	_, _ = sum.Write(part)
}
