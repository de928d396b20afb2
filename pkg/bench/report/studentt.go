// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

// studentT are the 97.5 % quantiles of Student's t for 1, 2, … degrees of freedom.
var studentT = []float64{
	12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
	2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
	2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
}

// normal975 is the 97.5 % quantile of the normal distribution, which Student's t
// comes to.
const normal975 = 1.959964

// quantile975 returns the 97.5 % quantile of Student's t: the half width of a 95 %
// confidence interval in standard errors. The degrees of freedom are at least 1;
// beyond the table it is the expansion of Abramowitz and Stegun 26.7.5, which is
// right to four decimals there.
func quantile975(degrees int) float64 {
	if degrees <= len(studentT) {
		return studentT[degrees-1]
	}
	n, z := float64(degrees), normal975
	return z + (z*z*z+z)/(4*n) + (5*z*z*z*z*z+16*z*z*z+3*z)/(96*n*n)
}
