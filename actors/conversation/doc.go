// Package conversation is the rules of a conversation: one turn at a time, cancel, budget, recovery.
package conversation
