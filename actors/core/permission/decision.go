package permission

import (
	"strconv"
	"strings"
)

// BatchKind is the prefix of the ids of batches of decisions (package actors/decision) and of decisions.
const BatchKind = "dec"

// MaxBatch bounds the decisions of a batch.
const MaxBatch = 256

// batchLen is the length of a batch's id: package shard makes ids of 21 characters behind the prefix.
const batchLen = len(BatchKind) + 1 + 21

// DecisionID is the id of a decision: of its batch, and the number of it there.
func DecisionID(batch string, number int) string { return batch + "-" + strconv.Itoa(number) }

// BatchOf is where a decision is kept, false for what is no id of one.
func BatchOf(decisionID string) (batch string, number int, ok bool) {
	if len(decisionID) <= batchLen || !strings.HasPrefix(decisionID, BatchKind+"_") || decisionID[batchLen] != '-' {
		return "", 0, false
	}
	number, err := strconv.Atoi(decisionID[batchLen+1:])
	return decisionID[:batchLen], number, err == nil && number >= 0 && number < MaxBatch
}
