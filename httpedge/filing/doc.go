// Package filing takes files in for the surfaces and gives them out again: names, types told from the bytes, limits, the order
// in which bytes and record are stored, and what a browser may do with a download. Whose a file is, is the rules' to decide.
package filing
