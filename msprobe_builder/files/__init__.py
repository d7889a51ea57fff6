"""Files from outside: anybody may have put them there, so all are opened here and checked first."""
