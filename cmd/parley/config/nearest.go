package config

import (
	"errors"
	"flag"
	"strings"
)

// Nearest returns the word that was probably meant, "" if none is near.
func Nearest(word string, among []string) string {
	best, distance := "", 3
	for _, candidate := range among {
		if d := editDistance(word, candidate, distance); d < distance && d < len(word) {
			best, distance = candidate, d
		}
	}
	return best
}

// DidYouMean is a hint with the word that was probably meant, to be added to a message.
func DidYouMean(word string, among []string) string {
	if best := Nearest(word, among); best != "" {
		return ", did you mean " + best + "?"
	}
	return ""
}

// FlagError words an error of parsing flags as they are written, and names the flag that was probably meant.
func FlagError(set *flag.FlagSet, err error) error {
	const undefined = "flag provided but not defined: -" // the package flag has no error value for it
	name, is := strings.CutPrefix(err.Error(), undefined)
	if !is {
		return err
	}
	var names []string
	set.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	word := "--" + strings.TrimLeft(name, "-")
	return errors.New("unknown flag " + word + DidYouMean(word, names))
}
