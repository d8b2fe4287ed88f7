// Package tasks maps conversations to the tasks of A2A without asking anybody: a context is a session, and a task is one turn of it.
// What serves A2A uses it, and what tells the addresses that asked to be told of a task.
package tasks
