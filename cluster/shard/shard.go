// Package shard says which shard an id belongs to, and mints ids that belong to a given one.
//
// Every id is a kind, an underscore and 21 URL-safe random characters (conv_..., msg_..., run_...). The first two
// of the 21 name one of 4096 slots; slot modulo the number of shards is the shard. Ids minted for a conversation
// (its messages, runs, actions, events, files) take a slot of the conversation's own shard, so that any of them
// routes without a search. The number of shards is fixed when the cluster is created.
//
// It also plans where the copies of shards should be (Plan): a function of what was observed, whose answer is the next
// safe steps.
//
// It does no I/O: who owns a shard is the replicated log's business, and who makes the steps is cluster/balance.
package shard

import (
	"strings"
)

// ID numbers a shard from 0. Shard 0 is the directory; conversations live in 1..Count.
type ID uint32

// Epoch is the generation of a shard's owner: the raft term in which it became leader.
type Epoch uint64

// Directory is the shard of the small records that every node keeps in memory.
const Directory ID = 0

const (
	// The order of the alphabet decides where an id lives: it is part of what is stored, and never changes.
	alphabet  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	randomLen = 21
	slots     = 64 * 64
	// MaxCount bounds the shards of a cluster: each must own at least one slot, with some left to spread.
	MaxCount = 1024
)

// Map spreads ids over a fixed number of shards. It is a value: copy it freely, use it from anywhere. The zero value is
// unusable; see New.
type Map struct {
	count uint32
}

// New returns the map of a cluster with count conversation shards. It is false unless count is 1..MaxCount.
func New(count int) (Map, bool) {
	if count < 1 || count > MaxCount {
		return Map{}, false
	}
	return Map{count: uint32(count)}, true
}

// Count is the number of conversation shards.
func (m Map) Count() int { return int(m.count) }

// Of returns the shard of an id, always a conversation shard. It is false for a text that is no id of ours; that an id
// has a shard does not say that the thing exists.
func (m Map) Of(id string) (ID, bool) {
	_, random, found := strings.Cut(id, "_")
	if !found || len(random) != randomLen {
		return 0, false
	}
	for i := range len(random) {
		if index(random[i]) < 0 {
			return 0, false
		}
	}
	slot := uint32(index(random[0])*64 + index(random[1]))
	return ID(slot%m.count) + 1, true
}

// Mint makes an id of a kind ("conv") from at least 23 random bytes, in any shard.
func (m Map) Mint(kind string, random *[24]byte) string {
	return mint(kind, random, uint32(random[22]&63)*64+uint32(random[23]&63))
}

// MintIn makes an id of a kind that belongs to the given conversation shard, which must be 1..Count. 19 of its 21
// characters are random, 114 bits, so ids of one shard do not meet.
func (m Map) MintIn(kind string, in ID, random *[24]byte) string {
	draw := uint32(random[22]&63)*64 + uint32(random[23]&63)
	residue := uint32(in-1) % m.count
	slot := draw - draw%m.count + residue
	if slot >= slots {
		slot -= m.count
	}
	return mint(kind, random, slot)
}

func mint(kind string, random *[24]byte, slot uint32) string {
	var b strings.Builder
	b.Grow(len(kind) + 1 + randomLen)
	b.WriteString(kind)
	b.WriteByte('_')
	b.WriteByte(alphabet[slot>>6])
	b.WriteByte(alphabet[slot&63])
	for i := range randomLen - 2 {
		b.WriteByte(alphabet[random[i]&63])
	}
	return b.String()
}

func index(c byte) int {
	switch {
	case c >= 'A' && c <= 'Z':
		return int(c - 'A')
	case c >= 'a' && c <= 'z':
		return int(c-'a') + 26
	case c >= '0' && c <= '9':
		return int(c-'0') + 52
	case c == '-':
		return 62
	case c == '_':
		return 63
	}
	return -1
}
