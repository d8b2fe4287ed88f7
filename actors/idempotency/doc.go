// Package idempotency holds the rules of repeated requests (Idempotency-Key): the same key and request has the same answer for
// a day, another request under the key is refused.
//
// Where what a request makes cannot be found again by its id, the request is carried out once (Begin.holder): others under the
// key are refused until there is an answer.
//
// states.md has the state table. An entity stands for one key of one caller on one route. It does not lock: requests that run at the same time, or again
// after their node died, make the same things under the same ids, which follow from the entity's seed; whatever they ask of
// other entities is then answered with the first outcome. The first answer that is kept is everybody's.
package idempotency
