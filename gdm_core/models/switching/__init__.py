"""Models that put every moment into one state: SLDS, rSLDS and AR-HMM."""
