// Package mail holds the rules of mails that the server sends to people. A mail is an entity from when it is asked for until a mail
// server has taken it or it is given up: so a node that dies loses none. Its attempts are a delivery (package delivery); an attempt of
// which nothing is heard is made again with the same id, so a mail may arrive twice: some seconds after its node has died or given the
// shard away, else after three minutes.
//
// An entity holds no secret and no text: what is to be sent is composed by the sender at each attempt. So links that let somebody in
// are in no log, and a mail that nobody is to get any more is dropped there. states.md has the state table.
package mail
